#include <gtest/gtest.h>

#include "support/divided_encoder.hpp"
#include "support/images_job.hpp"
#include "support/train_run.hpp"

namespace ppctl {
namespace {

using Sets = std::vector<std::string>;

struct Case {
  const char* name;
  int ranks;
  Sets sets;
};

/// Every way of MPipe: which layers, when, what is kept, and what else takes memory beside it.
const std::vector<Case>& cases() {
  static const std::vector<Case> result = {
      {"Plain", 4, {}},
      {"PlainSplitWithinTheTower", 2, {"parallel.pp=2", "pipeline.layers=[3, 9]"}},
      {"All", 4, {"mpipe={}"}},
      {"AllBeforeBody", 4, {"mpipe={mode: before_body}"}},
      {"Some", 4, {"mpipe={layers: 2}"}},
      {"SomeBeforeBody", 2, {"mpipe={layers: 2, mode: before_body}", "parallel.pp=2"}},
      {"DataAlone", 4, {"mpipe={layers: 0}"}},
      {"DataAloneBeforeBody", 2, {"mpipe={layers: 0, mode: before_body}", "parallel.pp=2"}},
      {"Recomputed", 4, {"mpipe={backward: recompute}"}},
      {"RecomputedSomeBeforeBody", 4, {"mpipe={backward: recompute, layers: 2, mode: before_body}"}},
      {"Frozen", 4, {"mpipe={}", "model.encoder=frozen"}},
      {"FrozenBeforeBody", 4, {"mpipe={mode: before_body}", "model.encoder=frozen"}},
      {"FewerMicrobatchesThanRanks", 4, {"mpipe={}", "batch.global_size=4"}},
      {"ZbH1", 4, {"mpipe={}", "pipeline.schedule=zb_h1"}},
      {"Interleaved", 2, {"mpipe={}", "pipeline.schedule=interleaved_1f1b", "parallel.pp=2"}},
      {"OverlapP2PDuplex", 4, {"mpipe={}", "pipeline.overlap_p2p=true", "pipeline.duplex=true"}},
      {"ZbV", 2, {"mpipe={layers: 2}", "pipeline.schedule=zb_v", "parallel.pp=2"}},
      {"Dualpipe", 4, {"mpipe={}", "pipeline.schedule=dualpipe"}},
      {"DualpipeOfDataAlone", 4, {"mpipe={layers: 0}", "pipeline.schedule=dualpipe"}},
      {"Bfloat16", 4, {"mpipe={layers: 2}", "precision.param=bfloat16"}},
      {"ProjectorOnly", 2, {"mpipe={layers: 2}", "model.encoder=projector_only", "parallel.pp=2"}},
      {"Swapped", 4, {"mpipe={}", "swap={layers: all}"}},
      {"RecomputedBody", 4, {"mpipe={}", "recompute=full"}},
      {"Sharded", 4, {"mpipe={}", "parallel.pp=2", "parallel.dp_shard=2"}},
      {"ShardedEveryMicrobatch", 4, {"mpipe={}", "parallel.pp=2", "parallel.dp_shard=2", "fsdp.reduce=microbatch"}},
  };
  return result;
}

class PlannedMemoryOfMpipe : public testing::TestWithParam<Case> {};

void expect_as_planned(const TrainResult& result, int num_ranks) {
  ASSERT_EQ(result.planned_memory.size(), static_cast<std::size_t>(num_ranks));
  for (std::size_t rank = 0; rank < result.planned_memory.size(); ++rank) {
    SCOPED_TRACE(fmt::format("rank {}", rank));
    const RankMemory& plan = result.planned_memory[rank];
    const MemoryPart& measured = result.measured_memory[rank];
    EXPECT_EQ(measured.between_steps, static_cast<double>(plan.tensors_between_steps()));
    const auto peak = static_cast<double>(plan.tensors_at_peak());
    EXPECT_NEAR(measured.peak, peak, 0.02 * peak) << "planned at " << plan.peak_step;
    EXPECT_EQ(measured.buffers, static_cast<double>(plan.buffers));
  }
}

TEST_P(PlannedMemoryOfMpipe, IsWhatARunTakes) {
  const test::TemporaryFolder folder;
  expect_as_planned(test::run_job(test::images_job(folder, GetParam().sets)).result, GetParam().ranks);
}

/// What the queue keeps then is most of what there is.
TEST(PlannedMemoryOfMpipeHalves, IsWhatARunTakesWithAllWeightHalvesAtTheEndOfTheStep) {
  const test::TemporaryFolder folder;
  for (const Sets& sets :
       {Sets{"mpipe={mode: before_body}"}, Sets{"mpipe={mode: before_body, backward: recompute}"},
        Sets{"mpipe={mode: before_body, layers: 2}", "parallel.pp=2"},
        Sets{"mpipe={mode: before_body}", "parallel.pp=2", "parallel.dp_shard=2"},
        Sets{"mpipe={mode: before_body}", "parallel.pp=2", "parallel.dp_shard=2", "fsdp.reduce=microbatch"}}) {
    SCOPED_TRACE(fmt::format("{}, {}", sets.front(), sets.back()));
    const JobConfig job = test::images_job(folder, sets);
    const Schedule schedule = test::with_divided_encoder(schedule_of_job(job));
    expect_as_planned(test::run_job_on(job, schedule).result, job.world_size());
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, PlannedMemoryOfMpipe, testing::ValuesIn(cases()),
                         [](const auto& test_case) { return std::string(test_case.param.name); });

}  // namespace
}  // namespace ppctl
