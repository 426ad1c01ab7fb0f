// Mixture of experts against the reference, with experts on one rank and spread over several, and what may not change a
// bit of it.

#include <gtest/gtest.h>

#include <cmath>

#include "parity/training.hpp"
#include "support/temporary_folder.hpp"

namespace ppctl::parity {
namespace {

constexpr double kTolerance = 1e-5;

struct Place {
  int pp = 1;
  int dp_shard = 1;
  int ep = 1;
  int dp_replicate = 1;
  const char* schedule = "1f1b";

  std::string text() const {
    return fmt::format("pp {}, dp_shard {}, ep {}, dp_replicate {}, {}", pp, dp_shard, ep, dp_replicate, schedule);
  }
};

std::vector<std::string> at(const Place& place, std::vector<std::string> more = {}) {
  more.insert(more.end(),
              {fmt::format("parallel.pp={}", place.pp), fmt::format("parallel.dp_shard={}", place.dp_shard),
               fmt::format("parallel.ep={}", place.ep), fmt::format("parallel.dp_replicate={}", place.dp_replicate),
               fmt::format("pipeline.schedule={}", place.schedule)});
  return more;
}

class ExpertParity : public testing::TestWithParam<const char*> {};

TEST_P(ExpertParity, HoldsWhereverTheLayersAreAndEveryScheduleGivesTheSameBits) {
  const std::string name = GetParam();
  const TrainingRun alone = train(name, at({}));
  expect_reference(alone, name, kTolerance);
  for (const Place& place : {Place{2, 1, 1, 1, "1f1b"}, Place{4, 1, 1, 1, "1f1b"},
                             Place{2, 1, 1, 1, "interleaved_1f1b"}, Place{2, 1, 1, 1, "zb_v"}}) {
    EXPECT_EQ(bits(train(name, at(place))), bits(alone)) << place.text();
  }
}

TEST_P(ExpertParity, HoldsWithExpertsOverTwoRanksWithTheSameBitsForEverySchedule) {
  const std::string name = GetParam();
  const TrainingRun one_stage = train(name, at({1, 2, 2}));
  expect_reference(one_stage, name, kTolerance);
  for (const Place& place :
       {Place{4, 2, 2, 1, "1f1b"}, Place{2, 2, 2, 1, "interleaved_1f1b"}, Place{2, 2, 2, 1, "zb_v"}}) {
    EXPECT_EQ(bits(train(name, at(place))), bits(one_stage)) << place.text();
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ExpertParity, testing::Values("mixtral-tiny", "mixtral-aux", "qwen3moe-tiny"),
                         [](const auto& test_case) {
                           std::string name = test_case.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(ExpertParityOfEightLayers, HoldsOverEightStagesOfFourRanks) {
  for (const char* schedule : {"interleaved_1f1b", "zb_v"}) {
    expect_reference(train("mixtral-deep", at({4, 1, 1, 1, schedule})), "mixtral-deep", kTolerance);
  }
  expect_reference(train("mixtral-deep", at({4, 2, 2, 1, "zb_v"})), "mixtral-deep", kTolerance);
}

TEST(ExpertParityOfMeshes, HoldsWhateverIsShardedAndReplicated) {
  for (const Place& place : {Place{1, 1, 2, 2}, Place{1, 4, 2, 1}, Place{2, 2, 2, 2}, Place{1, 2, 4, 2}}) {
    SCOPED_TRACE(place.text());
    expect_reference(train("mixtral-tiny", at(place)), "mixtral-tiny", kTolerance);
  }
}

TEST(ExpertParityOfMeshes, ReducesEveryMicrobatchWhereAsked) {
  expect_reference(train("mixtral-tiny", at({2, 4, 2}, {"fsdp.reduce=microbatch"})), "mixtral-tiny", kTolerance);
}

TEST(Experts, RecomputedLayersGiveTheSameBitsWhereverTheExpertsAre) {
  for (const int ep : {1, 2}) {
    const Place place{2, 2, ep};
    const std::string kept = bits(train("mixtral-aux", at(place, {"steps=3"})));
    for (const char* recompute : {"recompute=full", "recompute={mlp: true}", "recompute={attention: true}"}) {
      EXPECT_EQ(bits(train("mixtral-aux", at(place, {"steps=3", recompute}))), kept) << recompute << ", ep " << ep;
    }
  }
}

TEST(Experts, ReportTheAuxiliaryLossApart) {
  const TrainingRun run = train("mixtral-aux", at({2, 2, 2}, {"steps=2"}));
  const TrainingRun plain = train("mixtral-tiny", at({2, 2, 2}, {"steps=1"}));
  ASSERT_EQ(run.steps.size(), 2U);
  // Of two choices of each token and evenly used experts it would be 2 times the coefficient of 0.01.
  EXPECT_NEAR(run.steps[0].aux_loss, 0.0211, 0.0005);
  EXPECT_NEAR(run.steps[0].loss - run.steps[0].aux_loss, plain.steps[0].loss, 1e-6);
  EXPECT_EQ(plain.steps[0].aux_loss, 0.0);
  double sum = 0.0;
  for (std::size_t i = 0; i < 8; ++i) sum += run.microbatches[i].aux_loss / 8;
  EXPECT_NEAR(sum, run.steps[0].aux_loss, 1e-12);
}

/// The lines of bits() of the steps from `first` on.
std::string from_step(const TrainingRun& run, std::int64_t first) {
  TrainingRun rest;
  for (const auto& record : run.microbatches) {
    if (record.step >= first) rest.microbatches.push_back(record);
  }
  for (const auto& record : run.steps) {
    if (record.step >= first) rest.steps.push_back(record);
  }
  return bits(rest);
}

TEST(Experts, ResumeOverAnotherNumberOfRanks) {
  const test::TemporaryFolder folder;
  const std::string keep = "checkpoint.folder=" + folder.path();
  train("mixtral-tiny", at({1, 2, 2}, {"steps=4", keep}));
  const TrainingRun rest = train("mixtral-tiny", at({2, 1, 1}, {"steps=8", keep}));
  const TrainingRun whole = train("mixtral-tiny", at({1, 1, 1}, {"steps=8"}));
  ASSERT_EQ(rest.steps.size(), 4U);
  for (std::size_t s = 0; s < rest.steps.size(); ++s) {
    EXPECT_NEAR(rest.steps[s].loss, whole.steps[s + 4].loss, kTolerance * whole.steps[s + 4].loss);
  }
}

TEST(Experts, ResumeOverAsManyRanksToTheBit) {
  const test::TemporaryFolder folder;
  const std::string keep = "checkpoint.folder=" + folder.path();
  const Place place{1, 4, 2};
  const TrainingRun whole = train("mixtral-tiny", at(place, {"steps=6"}));
  train("mixtral-tiny", at(place, {"steps=3", keep}));
  const TrainingRun rest = train("mixtral-tiny", at(place, {"steps=6", keep}));
  EXPECT_EQ(bits(rest), from_step(whole, 3));
}

}  // namespace
}  // namespace ppctl::parity
