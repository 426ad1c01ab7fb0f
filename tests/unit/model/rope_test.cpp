#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "model/family.hpp"
#include "model/layers/rotary_embedding.hpp"

namespace ppctl {
namespace {

ModelSpec llama_with(const nlohmann::json& keys) {
  std::map<std::string, std::string> all = {{"vocab_size", "32"},         {"hidden_size", "64"},
                                            {"intermediate_size", "64"},  {"num_hidden_layers", "1"},
                                            {"num_attention_heads", "4"}, {"max_position_embeddings", "128"}};
  for (const auto& [key, value] : keys.items()) all[key] = value.dump();
  return parse_model_keys("llama", all);
}

TEST(RotaryEmbedding, HasTheFrequenciesOfTransformersForEveryKind) {
  std::ifstream file(std::string(PPCTL_SOURCE_DIR) + "/tests/data/rope/frequencies.json");
  const nlohmann::json cases = nlohmann::json::parse(file);
  ASSERT_EQ(cases.size(), 9U);
  for (const nlohmann::json& expected : cases) {
    SCOPED_TRACE(expected["name"].get<std::string>());
    const ModelSpec spec = llama_with(expected["keys"]);
    EXPECT_NEAR(spec.rope.attention_factor, expected["attention_factor"].get<double>(), 1e-12);
    const std::vector<float> frequencies = RotaryEmbedding(spec.rope, spec.head_dim).frequencies(expected["length"]);
    ASSERT_EQ(frequencies.size(), expected["frequencies"].size());
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
      const double frequency = expected["frequencies"][i];
      EXPECT_NEAR(frequencies[i], frequency, 5e-7 * frequency) << i;
    }
  }
}

TEST(RotaryEmbedding, ReadsBothSpellingsOfConfigFiles) {
  const ModelSpec older = llama_with({{"rope_theta", 5e5}, {"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}});
  const ModelSpec newer =
      llama_with({{"rope_parameters", {{"rope_theta", 5e5}, {"rope_type", "linear"}, {"factor", 4.0}}}});
  EXPECT_EQ(RotaryEmbedding(older.rope, 16).frequencies(10), RotaryEmbedding(newer.rope, 16).frequencies(10));
  EXPECT_EQ(older.rope.theta, 5e5);
}

TEST(RotaryEmbedding, KeepsTablesOfOtherLengthsApartOnlyWhereTheKindDependsOnTheLength) {
  const RotaryEmbedding plain(llama_with({}).rope, 16);
  const auto at_64 = plain.tables(64);
  EXPECT_EQ(plain.tables(32), at_64);
  const RotaryEmbedding dynamic(llama_with({{"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}}).rope, 16);
  const auto at_300 = dynamic.tables(300);
  EXPECT_EQ(dynamic.tables(300), at_300);
  EXPECT_FALSE(at::equal(dynamic.tables(200)->cos, at_300->cos.narrow(0, 0, 200)));
}

}  // namespace
}  // namespace ppctl
