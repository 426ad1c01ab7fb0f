// FSDP inside every stage against the reference, and what may not change a bit of it.

#include <gtest/gtest.h>

#include <algorithm>

#include "parity/ragged_samples.hpp"
#include "parity/training.hpp"

namespace ppctl::parity {
namespace {

std::vector<std::string> mesh(int pp, int dp_shard, int dp_replicate = 1) {
  return {"parallel.pp=" + std::to_string(pp), "parallel.dp_shard=" + std::to_string(dp_shard),
          "parallel.dp_replicate=" + std::to_string(dp_replicate)};
}

std::vector<std::string> with(std::vector<std::string> sets, const std::vector<std::string>& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

std::string schedule(std::string_view name) { return "pipeline.schedule=" + std::string(name); }

bool says(const TrainingRun& run, const std::string& part) {
  return std::ranges::any_of(run.messages,
                             [&](const std::string& text) { return text.find(part) != std::string::npos; });
}

/// Cases whose layers suffice for two stages on each of four ranks have all three schedules there.
TEST(FsdpParity, MatchesTheReferenceOnEveryMeshAndSchedule) {
  struct Shape {
    int pp, dp_shard, dp_replicate;
  };
  for (const Shape& at : {Shape{1, 2, 1}, Shape{2, 2, 1}, Shape{4, 2, 1}, Shape{1, 4, 1}, Shape{1, 2, 2}}) {
    for (const char* name : {"1f1b", "interleaved_1f1b", "zb_v"}) {
      SCOPED_TRACE(fmt::format("pp {}, dp_shard {}, dp_replicate {}, {}", at.pp, at.dp_shard, at.dp_replicate, name));
      expect_reference(train("llama-tiny", with(mesh(at.pp, at.dp_shard, at.dp_replicate), {schedule(name)})),
                       "llama-tiny", 1e-5);
    }
  }
}

TEST(FsdpParity, MatchesTheReferenceOfEveryFamily) {
  for (const char* name : {"llama-tied", "qwen3-tiny", "gpt2-tiny"}) {
    expect_reference(train(name, with(mesh(2, 2), {schedule("zb_v")})), name, 1e-5);
    expect_reference(train(name, mesh(1, 2, 2)), name, 1e-5);
  }
}

class FsdpBits : public testing::TestWithParam<const char*> {};

TEST_P(FsdpBits, AreThoseOfOneStageForEveryScheduleAndNumberOfStages) {
  const std::vector<std::string> common = {"steps=3", std::string("fsdp.reduce=") + GetParam()};
  const std::string one = bits(train("llama-tied", with(mesh(1, 2), common)));
  EXPECT_EQ(bits(train("llama-tied", with(mesh(1, 2), common))), one) << "the second time";
  for (const char* name : {"gpipe", "1f1b", "interleaved_1f1b", "zb_h1", "zb_v", "dualpipe_v"}) {
    EXPECT_EQ(bits(train("llama-tied", with(mesh(2, 2), with(common, {schedule(name)})))), one) << name;
  }
  EXPECT_EQ(bits(train("llama-tied", with(mesh(4, 2), with(common, {schedule("1f1b")})))), one);
  EXPECT_EQ(
      bits(train("llama-tied",
                 with(mesh(2, 2), with(common, {"fsdp.reshard_after_forward=true", schedule("interleaved_1f1b")})))),
      one);
}

INSTANTIATE_TEST_SUITE_P(Reduce, FsdpBits, testing::Values("step", "microbatch"),
                         [](const auto& test_case) { return std::string(test_case.param); });

TEST(Fsdp, OfTwoReplicasOfTwoShardsHasTheBitsOfOneStage) {
  const std::string one = bits(train("llama-tied", with(mesh(1, 2, 2), {"steps=3"})));
  EXPECT_EQ(bits(train("llama-tied", with(mesh(2, 2, 2), {"steps=3", schedule("zb_v")}))), one);
}

TEST(Fsdp, OfABidirectionalPipelineKeepsItsCopiesEqual) {
  const auto run = train("llama-tiny", with(mesh(4, 2), {"steps=5", schedule("dualpipe"), "batch.microbatch_size=1"}));
  const auto alone = train("llama-tiny", with(mesh(1, 2), {"steps=5", "batch.microbatch_size=1"}));
  ASSERT_EQ(run.steps.size(), alone.steps.size());
  for (std::size_t s = 0; s < run.steps.size(); ++s) {
    EXPECT_NEAR(run.steps[s].loss, alone.steps[s].loss, 1e-5 * alone.steps[s].loss);
    EXPECT_NEAR(run.steps[s].grad_norm, alone.steps[s].grad_norm, 1e-5 * alone.steps[s].grad_norm);
  }
}

TEST(Fsdp, ReducesOnceAGroupAndStepOrOnceAMicrobatch) {
  // Two stages of three groups (embedding or head, two layers), four microbatches a replica, three steps of two
  // batches.
  const std::vector<std::string> common =
      with(mesh(2, 2), {"steps=3", "batch.global_size=8", "accumulate=2", "batch.microbatch_size=1"});
  const auto once = train("llama-tied", common);
  EXPECT_TRUE(says(once, "stage 0: 18 all-gathers and 9 reduce-scatters of 3 groups")) << once.messages.back();
  const auto every = train("llama-tied", with(common, {"fsdp.reduce=microbatch"}));
  EXPECT_TRUE(says(every, "stage 0: 18 all-gathers and 72 reduce-scatters of 3 groups")) << every.messages.back();
}

TEST(Fsdp, AccumulatesTwoBatchesAsOne) {
  const auto halves = train("llama-tied", with(mesh(1, 2), {"steps=3", "batch.global_size=8", "accumulate=2"}));
  const auto whole = train("llama-tied", with(mesh(1, 2), {"steps=3"}));
  for (std::size_t s = 0; s < whole.steps.size(); ++s) {
    EXPECT_NEAR(halves.steps[s].loss, whole.steps[s].loss, 1e-6 * whole.steps[s].loss);
    EXPECT_NEAR(halves.steps[s].grad_norm, whole.steps[s].grad_norm, 1e-5 * whole.steps[s].grad_norm);
  }
}

TEST(Fsdp, WeighsRaggedLabelsAsOneRankDoes) {
  const auto samples = std::make_shared<RaggedSamples>();
  const std::vector<std::string> common = {"data.sequence_length=16", "batch.microbatch_size=1", "steps=6"};
  const TrainingRun one = train("llama-tiny", with(mesh(1, 1), common), samples);
  const TrainingRun two = train("llama-tiny", with(mesh(2, 2), common), samples);
  ASSERT_EQ(one.steps.size(), two.steps.size());
  for (std::size_t s = 0; s < one.steps.size(); ++s) {
    EXPECT_EQ(one.steps[s].num_labels, two.steps[s].num_labels);
    EXPECT_NEAR(one.steps[s].loss, two.steps[s].loss, 1e-6 * one.steps[s].loss);
    EXPECT_NEAR(one.steps[s].grad_norm, two.steps[s].grad_norm, 1e-5 * one.steps[s].grad_norm);
  }
}

/// bfloat16 has 8 bits: losses near 5 are right to a few hundredths.
void expect_near_float32(const TrainingRun& run, const TrainingRun& exact) {
  ASSERT_EQ(run.steps.size(), exact.steps.size());
  for (std::size_t s = 0; s < run.steps.size(); ++s) {
    EXPECT_NEAR(run.steps[s].loss, exact.steps[s].loss, 0.02 * exact.steps[s].loss) << "step " << s;
    EXPECT_NEAR(run.steps[s].grad_norm, exact.steps[s].grad_norm, 0.05 * exact.steps[s].grad_norm) << "step " << s;
    EXPECT_NE(run.steps[s].loss, exact.steps[s].loss) << "step " << s;
  }
}

TEST(MixedPrecision, FollowsFloat32WithTheSameBitsForEverySchedule) {
  const std::vector<std::string> mixed = {"precision.param=bfloat16", "steps=10"};
  for (const int dp : {1, 2}) {
    const TrainingRun exact = train("llama-tied", with(mesh(1, dp), {"steps=10"}));
    const TrainingRun one = train("llama-tied", with(mesh(1, dp), mixed));
    expect_near_float32(one, exact);
    EXPECT_EQ(bits(train("llama-tied", with(mesh(2, dp), with(mixed, {schedule("1f1b")})))), bits(one)) << "dp " << dp;
    EXPECT_EQ(bits(train("llama-tied", with(mesh(2, dp), with(mixed, {schedule("zb_v")})))), bits(one)) << "dp " << dp;
  }
}

TEST(MixedPrecision, ReducesInBFloat16WhereAsked) {
  const std::vector<std::string> mixed = {"precision.param=bfloat16", "steps=4"};
  const TrainingRun exact = train("llama-tied", with(mesh(1, 2, 2), {"steps=4"}));
  const TrainingRun wide = train("llama-tied", with(mesh(1, 2, 2), mixed));
  const TrainingRun narrow = train("llama-tied", with(mesh(1, 2, 2), with(mixed, {"precision.reduce=bfloat16"})));
  expect_near_float32(narrow, exact);
  EXPECT_NE(bits(narrow), bits(wide));
}

}  // namespace
}  // namespace ppctl::parity
