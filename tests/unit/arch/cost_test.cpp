#include "arch/cost.hpp"

#include <gtest/gtest.h>

#include "arch/family.hpp"
#include "arch/model_work.hpp"

namespace ppctl {
namespace {

ModelSpec tiny(const std::string& tied) {
  return parse_model_keys("llama", {{"vocab_size", "10"},
                                    {"hidden_size", "8"},
                                    {"intermediate_size", "12"},
                                    {"num_hidden_layers", "3"},
                                    {"num_attention_heads", "2"},
                                    {"num_key_value_heads", "1"},
                                    {"tie_word_embeddings", tied}});
}

TEST(Cost, CountsTheProductsOfALayer) {
  const PartCost cost = cost_of(layer_config(tiny("false"), 0), 6);
  // q/k/v 8 x 16, output 8 x 8, gate/up 8 x 24, down 12 x 8, two operations each.
  const double linear = 2.0 * (8 * 16 + 8 * 8 + 8 * 24 + 12 * 8);
  // Half of a product of 6 tokens by 8 features, twice in the forward and five times in the backward.
  const double product = 0.5 * 2.0 * 6 * 8;
  EXPECT_EQ(cost.forward_flops, linear + 2 * product);
  EXPECT_EQ(cost.dx_flops, linear + 5 * product);
  EXPECT_EQ(cost.dw_flops, linear);
  EXPECT_EQ(cost.parameters, 2 * 8 + 8 * 16 + 8 * 8 + 8 * 24 + 12 * 8);
}

TEST(Cost, CountsWhatIsRecomputedShortOfWhatOnlyItsOutputNeeds) {
  const double product = 0.5 * 2.0 * 6 * 8;
  const auto recomputed = [](const RecomputeParts& parts) {
    DecoderLayerConfig layer = layer_config(tiny("false"), 0);
    layer.recompute = parts;
    return cost_of(layer, 6).recompute_flops;
  };
  EXPECT_EQ(recomputed({}), 0.0);
  EXPECT_EQ(recomputed({true, false, false}), 2.0 * (8 * 16 + 8 * 8 + 8 * 24) + 2 * product);
  EXPECT_EQ(recomputed({false, true, false}), 2.0 * (8 * 16) + 2 * product);
  EXPECT_EQ(recomputed({false, false, true}), 2.0 * (8 * 24));
}

TEST(Cost, CountsTheExpertsOfAToken) {
  const ModelSpec spec = parse_model_keys("mixtral", {{"vocab_size", "10"},
                                                      {"hidden_size", "8"},
                                                      {"intermediate_size", "12"},
                                                      {"num_hidden_layers", "3"},
                                                      {"num_attention_heads", "2"},
                                                      {"num_local_experts", "5"},
                                                      {"num_experts_per_tok", "2"}});
  DecoderLayerConfig without = layer_config(spec, 0);
  without.moe->top_k = 0;
  const PartCost all = cost_of(layer_config(spec, 0), 6);
  // Gate, up and down, 8 x 12, of two experts.
  EXPECT_EQ(all.forward_flops - cost_of(without, 6).forward_flops, 2 * 2.0 * 3 * 8 * 12);
  EXPECT_EQ(all.dw_flops - cost_of(without, 6).dw_flops, 2 * 2.0 * 3 * 8 * 12);
  EXPECT_EQ(all.parameters, 2 * 8 + 4 * 8 * 8 + 5 * 8 + 5 * 3 * 8 * 12);
}

TEST(Cost, CountsATiedHeadsWeightOnceButComputesWithIt) {
  const PartCost own = cost_of(head_config(tiny("false")));
  const PartCost tied = cost_of(head_config(tiny("true")));
  EXPECT_EQ(own.parameters, 8 + 80);
  EXPECT_EQ(tied.parameters, 8);
  EXPECT_EQ(own.total_flops(), tied.total_flops());
  EXPECT_EQ(tied.forward_flops, 160.0);
  EXPECT_EQ(cost_of(embedding_config(tiny("true"))).parameters, 80);
}

TEST(Cost, GivesTheSplitOfLayersForwardAndBackward) {
  const LayerCosts costs = operations_of(tiny("false"), {}, 6).split_costs();
  ASSERT_EQ(costs.layers.size(), 3U);
  EXPECT_EQ(costs.layers[1], cost_of(layer_config(tiny("false"), 1), 6).total_flops());
  EXPECT_EQ(costs.head, 480.0);
  EXPECT_EQ(costs.embedding, 0.0);
}

}  // namespace
}  // namespace ppctl
