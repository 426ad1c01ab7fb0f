#include <gtest/gtest.h>

#include "runtime/executor.hpp"
#include "schedule/generator.hpp"
#include "unit/runtime/toy_pipeline.hpp"

namespace ppctl {
namespace {

using toy::expect_same_bits;
using toy::Job;
using toy::Layer;
using toy::train;
using toy::train_alone;

/// A job that the schedule can run, with what one rank must give for it.
Job job_for(const std::string& schedule, int pp) {
  Job job;
  job.schedule = schedule;
  job.pp = pp;
  job.num_microbatches = 2 * pp;
  return job;
}

/// One rank's run; where the pipeline is bidirectional its two halves are summed apart.
toy::Result alone(Job job) {
  job.two_halves = find_generator(job.schedule)->placement == PlacementKind::kBidirectional;
  return train_alone(job);
}

class EverySchedule : public testing::TestWithParam<std::string_view> {};

TEST_P(EverySchedule, GivesTheBitsOfOneRankOnTwoRanksAndOnFour) {
  for (const int pp : {2, 4}) {
    SCOPED_TRACE(fmt::format("pp = {}", pp));
    const Job job = job_for(std::string(GetParam()), pp);
    expect_same_bits(train(job), alone(job));
  }
}

TEST_P(EverySchedule, GivesTheBitsOfOneRankInFloatWithHardLayers) {
  Job job = job_for(std::string(GetParam()), 4);
  job.dtype = at::kFloat;
  job.layers = {Layer::kTwice, Layer::kFrozen,    Layer::kNoParameters, Layer::kDense,
                Layer::kSkip,  Layer::kForgetful, Layer::kSkip,         Layer::kForgetful};
  job.ragged = true;
  expect_same_bits(train(job), alone(job));
}

TEST_P(EverySchedule, IsNotChangedByOverlapDuplexBatchesOrASplitBackward) {
  Job job = job_for(std::string(GetParam()), 4);
  const toy::Result wanted = alone(job);
  const bool splits_itself = find_generator(job.schedule)->splits_backward;
  for (int choice = 1; choice < (splits_itself ? 4 : 8); ++choice) {
    job.passes.overlap_p2p = (choice & 1) != 0;
    job.passes.duplex = (choice & 2) != 0;
    job.passes.split_backward = (choice & 4) != 0;
    SCOPED_TRACE(fmt::format("overlap_p2p {}, duplex {}, split_backward {}", job.passes.overlap_p2p, job.passes.duplex,
                             job.passes.split_backward));
    expect_same_bits(train(job), wanted);
  }
}

TEST_P(EverySchedule, GivesTheSameBitsWhenItsFirstForwardsAreAbandonedAndRunAgain) {
  for (const int passes : {0, 1, 2}) {
    SCOPED_TRACE(fmt::format("passes {}", passes));
    Job job = job_for(std::string(GetParam()), 4);
    const toy::Result wanted = alone(job);
    job.passes.overlap_p2p = passes > 0;
    job.passes.duplex = passes > 1;
    job.validation = toy::Validation::kConfirms;
    expect_same_bits(train(job), wanted);
    job.validation = toy::Validation::kAbandons;
    expect_same_bits(train(job), wanted);
  }
}

TEST(OverlappedPairs, ChangeNoBitWhenTheyRunOneAfterTheOther) {
  for (const char* schedule : {"1f1b", "interleaved_1f1b"}) {
    SCOPED_TRACE(schedule);
    Job job = job_for(schedule, 4);
    job.passes.overlap_b_f = true;
    job.passes.overlap_p2p = true;
    job.passes.duplex = true;
    expect_same_bits(train(job), alone(job));
  }
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> names;
  for (const GeneratorInfo& info : generators()) names.push_back(info.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Generators, EverySchedule, testing::ValuesIn(names()), [](const auto& param_info) {
  std::string name(param_info.param);
  return name[0] >= '0' && name[0] <= '9' ? "the_" + name : name;
});

}  // namespace
}  // namespace ppctl
