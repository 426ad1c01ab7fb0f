#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "arch/family.hpp"
#include "base/error.hpp"

namespace ppctl {
namespace {

using nlohmann::json;

json llama_config() {
  return {{"model_type", "llama"},   {"vocab_size", 32},       {"hidden_size", 64},
          {"intermediate_size", 96}, {"num_hidden_layers", 3}, {"num_attention_heads", 4}};
}

/// The message of parsing llama_config() with these keys changed (null: as if missing).
std::string fault_of(const json& changes) {
  json config = llama_config();
  config.update(changes);
  try {
    parse_model(config.dump(), "config.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ModelConfig, FillsInTheDefaultsOfTransformers) {
  const ModelSpec spec = parse_model(llama_config().dump(), "config.json");
  EXPECT_EQ(spec.head_dim, 16);
  EXPECT_EQ(spec.num_kv_heads, 4);
  EXPECT_EQ(spec.norm_eps, 1e-6);
  EXPECT_EQ(spec.rope.theta, 10000.0);
  EXPECT_FALSE(spec.tied_head);
}

TEST(ModelConfig, LetsOverridesReplaceKeysOfTheFile) {
  const ModelSpec spec =
      parse_model(llama_config().dump(), "config.json",
                  {{"num_hidden_layers", "5"}, {"tie_word_embeddings", "true"}, {"hidden_act", "gelu"}});
  EXPECT_EQ(spec.num_layers, 5);
  EXPECT_TRUE(spec.tied_head);
  EXPECT_EQ(spec.activation, Activation::kGeluErf);
}

TEST(ModelConfig, NamesFileAndKeyOfEachFault) {
  const std::vector<std::pair<json, std::string>> expected = {
      {{{"hidden_size", nullptr}}, "config.json: hidden_size is missing"},
      {{{"hidden_size", "64"}}, "config.json: hidden_size must be an integer; it is \"64\""},
      {{{"hidden_size", 64.5}}, "config.json: hidden_size must be an integer; it is 64.5"},
      {{{"vocab_size", 0}}, "config.json: vocab_size must be at least 1; it is 0"},
      {{{"hidden_size", 62}},
       "config.json: hidden_size must be a multiple of num_attention_heads where head_dim is missing; they are 62 and "
       "4"},
      {{{"num_key_value_heads", 3}},
       "config.json: num_attention_heads must be a multiple of num_key_value_heads; they are 4 and 3"},
      {{{"head_dim", 15}}, "config.json: head_dim must be even for rotary position embedding; it is 15"},
      {{{"hidden_act", "mish"}},
       "config.json: hidden_act must be silu, gelu, gelu_new, gelu_pytorch_tanh, quick_gelu or relu; it is 'mish'"},
      {{{"attention_dropout", 1.0}}, "config.json: attention_dropout must be at least 0 and below 1; it is 1"},
      {{{"tie_word_embeddings", 1}}, "config.json: tie_word_embeddings must be true or false; it is 1"},
      {{{"rope_scaling", {{"type", "su"}}}},
       "config.json: rope_scaling.type must be default, linear, dynamic, llama3, yarn or longrope; it is 'su'"},
      {{{"rope_parameters", {{"rope_type", "linear"}}}}, "config.json: rope_parameters.factor is missing"},
      {{{"rope_parameters", 5}}, "config.json: rope_parameters must be an object; it is 5"},
      {{{"rope_scaling", {{"type", "longrope"}, {"short_factor", {1.0}}, {"long_factor", {1.0}}}}},
       "config.json: rope_scaling.short_factor must have head_dim / 2 = 8 numbers; it has 1"},
      {{{"model_type", "bloom"}},
       "config.json: model_type 'bloom' is not supported; supported are llama, qwen3, gpt2, mixtral, qwen3_moe, "
       "llava"},
      {{{"model_type", "mixtral"}}, "config.json: num_local_experts is missing"},
      {{{"model_type", "mixtral"}, {"num_local_experts", 2}, {"num_experts_per_tok", 3}},
       "config.json: num_experts_per_tok must be at most num_local_experts; they are 3 and 2"},
      {{{"model_type", "mixtral"}, {"num_local_experts", 2}, {"num_experts_per_tok", 1}, {"sliding_window", 64}},
       "config.json: sliding_window is set, but sliding-window attention is not supported"},
      {{{"model_type", "mixtral"}, {"num_local_experts", 2}, {"num_experts_per_tok", 1}, {"router_jitter_noise", 0.1}},
       "config.json: router_jitter_noise above 0 is not supported"},
      {{{"model_type", "qwen3_moe"}, {"num_experts", 2}, {"num_experts_per_tok", 1}},
       "config.json: moe_intermediate_size is missing"},
      {{{"model_type", nullptr}}, "config.json: model_type is missing"},
  };
  for (const auto& [changes, text] : expected) EXPECT_EQ(fault_of(changes), text);
}

TEST(ModelConfig, RefusesFilesThatAreNoJsonObject) {
  EXPECT_THROW(
      {
        try {
          parse_model("{", "config.json");
        } catch (const Error& error) {
          EXPECT_STREQ(error.what(), "config.json: not a JSON file");
          throw;
        }
      },
      Error);
  EXPECT_THROW(parse_model("[]", "config.json"), Error);
}

TEST(ModelConfig, RefusesKeysThatTheFamilyDoesNotHaveWhereThereIsNoFile) {
  try {
    parse_model_keys("llama", {{"vocab_size", "32"}, {"hiden_size", "64"}}, "job.yaml: model");
    FAIL() << "hiden_size was accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "job.yaml: model: hiden_size is not a key of llama (did you mean 'hidden_size'?)");
  }
}

TEST(ModelConfig, KeepsUnknownKeysOfAFile) {
  json config = llama_config();
  config["my_own"] = {1, 2};
  const ModelSpec spec = parse_model(config.dump(), "config.json");
  EXPECT_EQ(json::parse(spec.config_json)["my_own"], json({1, 2}));
}

TEST(ModelConfig, ReadsExpertsInBothSpellings) {
  json config = llama_config();
  config.update({{"model_type", "qwen3_moe"},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 12},
                 {"num_hidden_layers", 6},
                 {"decoder_sparse_step", 2},
                 {"mlp_only_layers", {3}},
                 {"router_aux_loss_coef", 0.02}});
  for (const char* key : {"num_experts", "num_local_experts"}) {
    json spelled = config;
    spelled[key] = 8;
    const ModelSpec spec = parse_model(spelled.dump(), "config.json");
    EXPECT_EQ(spec.num_experts, 8);
    EXPECT_FALSE(spec.renormalise_experts);
    EXPECT_FALSE(spec.has_aux_loss()) << "transformers adds it only where output_router_logits is true";
    EXPECT_EQ(spec.dense_layers, (std::vector<std::int64_t>{0, 2, 3, 4}));
    spelled["output_router_logits"] = true;
    EXPECT_EQ(parse_model(spelled.dump(), "config.json").aux_loss_coefficient, 0.02);
  }
}

TEST(ModelConfig, RefusesWhatIsNotBuilt) {
  json qwen = llama_config();
  qwen.update({{"model_type", "qwen3"}, {"use_sliding_window", true}});
  try {
    parse_model(qwen.dump(), "config.json");
    FAIL() << "sliding windows were accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "config.json: use_sliding_window is true, but sliding-window attention is not supported");
  }
}

}  // namespace
}  // namespace ppctl
