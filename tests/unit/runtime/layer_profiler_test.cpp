#include "runtime/layer_profiler.hpp"

#include <gtest/gtest.h>

#include "arch/family.hpp"
#include "arch/stage_memory.hpp"

namespace ppctl {
namespace {

TEST(LayerProfiler, MeasuresEveryPartAndCountsWhatItKeepsToTheByte) {
  const ModelSpec spec = parse_model_keys("llama", {{"vocab_size", "64"},
                                                    {"hidden_size", "32"},
                                                    {"intermediate_size", "48"},
                                                    {"num_hidden_layers", "3"},
                                                    {"num_attention_heads", "2"}});
  const LayerProfile profile = measure_layers(spec, {at::kFloat, 2, 16, 3});
  EXPECT_EQ(profile.family, "llama");
  ASSERT_EQ(profile.layers.size(), 3U);
  for (const PartTimes& part : {profile.embedding, profile.layers[0], profile.head}) {
    EXPECT_GT(part.forward_ms, 0.0);
    EXPECT_GT(part.dw_ms, 0.0);
  }
  const SketchShape shape{2, 16, 4};
  EXPECT_EQ(profile.layers[1].saved_bytes, stage_memory(spec, {1, 2, false, false}, shape).saved_bytes);
  EXPECT_EQ(profile.head.saved_bytes, stage_memory(spec, {3, 3, false, true}, shape).saved_bytes);
}

}  // namespace
}  // namespace ppctl
