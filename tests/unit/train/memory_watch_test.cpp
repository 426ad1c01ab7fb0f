#include "train/memory_watch.hpp"

#include <gtest/gtest.h>

#include "support/temporary_folder.hpp"
#include "tiny_job.hpp"

namespace ppctl {
namespace {

using test::run_job;
using test::RunLog;
using test::some_text;
using test::TemporaryFolder;
using test::tiny_job;

/// Larger than the tiny job, so that tensors of a few bytes do not matter.
std::vector<std::string> larger(std::vector<std::string> more) {
  std::vector<std::string> sets = {"steps=3",
                                   "model.hidden_size=64",
                                   "model.intermediate_size=160",
                                   "model.num_hidden_layers=8",
                                   "model.num_attention_heads=4",
                                   "model.num_key_value_heads=2",
                                   "data.sequence_length=32",
                                   "batch.global_size=16",
                                   "batch.microbatch_size=2",
                                   "log.memory=true"};
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

std::vector<std::string> with_experts(std::vector<std::string> more) {
  more.insert(more.end(), {"model.family=mixtral", "model.num_local_experts=4", "model.num_experts_per_tok=2"});
  return more;
}

void expect_as_planned(const RunLog& log, std::size_t num_ranks) {
  const TrainResult& result = log.result;
  ASSERT_EQ(result.planned_memory.size(), num_ranks);
  ASSERT_EQ(result.measured_memory.size(), num_ranks);
  for (std::size_t rank = 0; rank < num_ranks; ++rank) {
    SCOPED_TRACE(fmt::format("rank {}", rank));
    const RankMemory& plan = result.planned_memory[rank];
    const MemoryPart& measured = result.measured_memory[rank];
    EXPECT_EQ(measured.between_steps, static_cast<double>(plan.tensors_between_steps()));
    const auto peak = static_cast<double>(plan.tensors_at_peak());
    EXPECT_NEAR(measured.peak, peak, 0.02 * peak) << "planned at " << plan.peak_step;
    EXPECT_EQ(measured.buffers, static_cast<double>(plan.buffers));
  }
}

struct Case {
  const char* name;
  int ranks;
  std::vector<std::string> sets;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> result = {
      {"OneRank", 1, {"parallel.pp=1"}},
      {"Gpipe2", 2, {"parallel.pp=2", "pipeline.schedule=gpipe"}},
      {"OneFOneB2", 2, {"parallel.pp=2"}},
      {"OneFOneB4", 4, {"parallel.pp=4"}},
      {"OneFOneB4OverlapP2P", 4, {"parallel.pp=4", "pipeline.overlap_p2p=true"}},
      {"OneFOneB4Duplex", 4, {"parallel.pp=4", "pipeline.duplex=true"}},
      {"Interleaved2", 2, {"parallel.pp=2", "pipeline.schedule=interleaved_1f1b"}},
      {"Interleaved4", 4, {"parallel.pp=4", "pipeline.schedule=interleaved_1f1b"}},
      {"ZbH1", 4, {"parallel.pp=4", "pipeline.schedule=zb_h1"}},
      {"ZbV2", 2, {"parallel.pp=2", "pipeline.schedule=zb_v"}},
      {"ZbV4", 4, {"parallel.pp=4", "pipeline.schedule=zb_v"}},
      {"TiedHead2", 2, {"parallel.pp=2", "model.tie_word_embeddings=true"}},
      {"TiedHeadOnOneRank", 2, {"parallel.pp=2", "pipeline.schedule=zb_v", "model.tie_word_embeddings=true"}},
      {"Sharded2", 2, {"parallel.pp=1", "parallel.dp_shard=2"}},
      {"Sharded2By2", 4, {"parallel.pp=2", "parallel.dp_shard=2"}},
      {"Sharded2By2EveryMicrobatch", 4, {"parallel.pp=2", "parallel.dp_shard=2", "fsdp.reduce=microbatch"}},
      {"Sharded2By2Resharding", 4, {"parallel.pp=2", "parallel.dp_shard=2", "fsdp.reshard_after_forward=true"}},
      {"Sharded2By2ZbV", 4, {"parallel.pp=2", "parallel.dp_shard=2", "pipeline.schedule=zb_v"}},
      {"Sharded2By2ZbVEveryMicrobatch",
       4,
       {"parallel.pp=2", "parallel.dp_shard=2", "pipeline.schedule=zb_v", "fsdp.reduce=microbatch"}},
      {"Sharded2By2TiedHead", 4, {"parallel.pp=2", "parallel.dp_shard=2", "model.tie_word_embeddings=true"}},
      {"Experts2", 2, with_experts({"parallel.pp=2"})},
      {"ExpertsWithAuxiliaryLossZbV4", 4,
       with_experts({"parallel.pp=4", "pipeline.schedule=zb_v", "model.output_router_logits=true"})},
      {"ExpertsSharded2By2", 4, with_experts({"parallel.pp=2", "parallel.dp_shard=2"})},
      {"ExpertsRecomputed2", 2, with_experts({"parallel.pp=2", "recompute=full"})},
      {"RecomputedWhole4", 4, {"parallel.pp=4", "recompute=full"}},
      {"RecomputedAttention4", 4, {"parallel.pp=4", "recompute={attention: true}"}},
      {"RecomputedMlpInterleaved4",
       4,
       {"parallel.pp=4", "recompute={mlp: true}", "pipeline.schedule=interleaved_1f1b"}},
      {"RecomputedEverySecondZbV4",
       4,
       {"parallel.pp=4", "recompute={every: 2}", "pipeline.schedule=zb_v", "model.num_hidden_layers=16"}},
      {"RecomputedStages2", 2, {"parallel.pp=2", "recompute={attention: true, mlp: true, stages: [0]}"}},
      {"Swapped4", 4, {"parallel.pp=4", "swap={layers: all}"}},
      {"SwappedLayersGpipe2", 2, {"parallel.pp=2", "pipeline.schedule=gpipe", "swap={layers: [0, 2, 5]}"}},
      {"SwappedInterleaved4", 4, {"parallel.pp=4", "pipeline.schedule=interleaved_1f1b", "swap={layers: all}"}},
      {"SwappedZbV4", 4, {"parallel.pp=4", "pipeline.schedule=zb_v", "swap={layers: all}"}},
      {"SwappedAndRecomputed4", 4, {"parallel.pp=4", "swap={layers: all}", "recompute={attention: true, every: 2}"}},
      {"SplitByCost3", 3, {"parallel.pp=3", "pipeline.layers=auto"}},
      {"Dualpipe4", 4, {"parallel.pp=4", "pipeline.schedule=dualpipe"}},
  };
  return result;
}

class PlannedMemory : public testing::TestWithParam<Case> {};

TEST_P(PlannedMemory, IsWhatARunTakes) {
  const TemporaryFolder folder;
  const RunLog log = run_job(tiny_job(folder.write("text", some_text()), larger(GetParam().sets)));
  expect_as_planned(log, static_cast<std::size_t>(GetParam().ranks));
}

std::string case_name(const testing::TestParamInfo<Case>& info) { return info.param.name; }

/// How many rows come to a rank's experts depends on the data; a plan takes what balanced routing brings.
TEST(MemoryWatch, PlansExpertsOverTwoRanksExactlyBetweenStepsAndBalancedWithin) {
  const TemporaryFolder folder;
  const RunLog log = run_job(tiny_job(folder.write("text", some_text()),
                                      larger(with_experts({"parallel.pp=2", "parallel.dp_shard=4", "parallel.ep=2"}))));
  ASSERT_EQ(log.result.planned_memory.size(), 8U);
  for (std::size_t rank = 0; rank < 8; ++rank) {
    const RankMemory& plan = log.result.planned_memory[rank];
    const MemoryPart& measured = log.result.measured_memory[rank];
    EXPECT_EQ(measured.between_steps, static_cast<double>(plan.tensors_between_steps())) << "rank " << rank;
    EXPECT_NEAR(measured.peak / static_cast<double>(plan.tensors_at_peak()), 1.0, 0.4) << "rank " << rank;
    EXPECT_EQ(measured.buffers, static_cast<double>(plan.buffers)) << "rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, PlannedMemory, testing::ValuesIn(cases()), case_name);

TEST(MemoryWatch, IsReportedWithEveryStepAndAtTheEnd) {
  const TemporaryFolder folder;
  const RunLog log = run_job(tiny_job(folder.write("text", some_text()), larger({})));
  ASSERT_EQ(log.steps.size(), 3u);
  for (const StepRecord& step : log.steps) {
    EXPECT_GT(step.tensor_mib, 0.0);
    EXPECT_GT(step.tensor_peak_mib, step.tensor_mib);
    EXPECT_GT(step.planned_peak_mib, step.tensor_mib);
  }
  EXPECT_NE(log.messages.back().find("memory of rank "), std::string::npos);
}

TEST(MemoryWatch, DoesNotGrowWithTheMicrobatchesOf1F1B) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", some_text());
  const auto peak = [&](int global_size) {
    const RunLog log =
        run_job(tiny_job(text, larger({"parallel.pp=4", "steps=1", fmt::format("batch.global_size={}", global_size)})));
    return log.result.measured_memory[0].peak;
  };
  // All of a step's token ids and labels are there from its start, and nothing else is more.
  const double tokens = (128 - 16) * 32 * 2 * sizeof(std::int64_t);
  EXPECT_LE(peak(128), peak(16) + tokens);
}

TEST(MemoryWatch, IsNothingWhereItIsOff) {
  const TemporaryFolder folder;
  const RunLog log = run_job(tiny_job(folder.write("text", some_text()), {"log.memory=false"}));
  EXPECT_TRUE(log.result.measured_memory.empty());
  EXPECT_EQ(log.steps.back().tensor_peak_mib, 0.0);
}

TEST(MemoryWatch, PlansABoundWhereTheHalvesOfAPairRunAtOnce) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", some_text());
  for (const int ranks : {2, 4}) {
    for (const char* recompute : {"recompute=none", "recompute={every: 2}"}) {
      SCOPED_TRACE(fmt::format("{} ranks, {}", ranks, recompute));
      const RunLog log =
          run_job(tiny_job(text, larger({fmt::format("parallel.pp={}", ranks), "pipeline.schedule=interleaved_1f1b",
                                         "pipeline.chunks=2", "pipeline.overlap_b_f=true", recompute})));
      for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
        const RankMemory& plan = log.result.planned_memory[rank];
        const MemoryPart& measured = log.result.measured_memory[rank];
        EXPECT_EQ(measured.between_steps, static_cast<double>(plan.tensors_between_steps()));
        // Some tensors of a few bytes are in no plan.
        EXPECT_LE(measured.peak, 1.02 * static_cast<double>(plan.tensors_at_peak())) << plan.peak_step;
        EXPECT_GE(measured.peak, 0.5 * static_cast<double>(plan.tensors_at_peak())) << plan.peak_step;
        // Batches take their buffers when half of a pair has ended, whichever that is.
        EXPECT_LE(measured.buffers, static_cast<double>(plan.buffers));
        EXPECT_GE(measured.buffers, 0.5 * static_cast<double>(plan.buffers));
      }
    }
  }
}

}  // namespace
}  // namespace ppctl
