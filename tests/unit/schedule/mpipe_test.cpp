#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "schedule/generator.hpp"
#include "schedule/pass.hpp"
#include "schedule/verify.hpp"
#include "support/divided_encoder.hpp"
#include "unit/schedule/schedule_cases.hpp"

namespace ppctl {
namespace {

Schedule lowered(const std::string& body, int pp, int microbatches, const MpipeOptions& mpipe, bool duplex = false) {
  ScheduleSpec spec;
  spec.name = body;
  spec.pp = pp;
  spec.num_microbatches = microbatches;
  Schedule schedule = generate_schedule(spec);
  PassOptions options;
  options.mpipe = mpipe;
  options.overlap_b_f = duplex;
  options.duplex = duplex;
  lower_schedule(schedule, options);
  return schedule;
}

MpipeOptions mpipe_with(bool just_in_time, bool encodes = true, bool trains = true) {
  MpipeOptions options;
  options.enabled = true;
  options.just_in_time = just_in_time;
  options.encodes = encodes;
  options.trains = trains;
  return options;
}

std::int64_t count(const Schedule& schedule, MetaStepType type) {
  std::int64_t steps = 0;
  for (const RankSteps& rank : schedule.ranks) {
    steps += std::ranges::count_if(rank.steps, [&](MetaStep step) { return step.type() == type; });
  }
  return steps;
}

/// How an encoder is placed and trained.
std::vector<MpipeOptions> ways() {
  std::vector<MpipeOptions> all;
  for (const bool just_in_time : {false, true}) {
    for (const bool trains : {false, true}) all.push_back(mpipe_with(just_in_time, true, trains));
  }
  all.push_back(mpipe_with(true));
  all.back().splits_backward = true;
  return all;
}

TEST(Mpipe, IsProvedForEveryBodyModeAndNumberOfMicrobatches) {
  for (const char* body : {"gpipe", "1f1b", "interleaved_1f1b", "zb_h1", "zb_v", "dualpipe_v", "dualpipe"}) {
    for (const int pp : {1, 2, 4}) {
      for (const int microbatches : {2, 8}) {
        ScheduleSpec spec{.name = body, .pp = pp, .num_microbatches = microbatches};
        if (refuse_schedule(spec)) continue;
        for (const MpipeOptions& mpipe : ways()) {
          const Schedule schedule = lowered(body, pp, microbatches, mpipe);
          const VerifyResult result = verify_schedule(schedule);
          EXPECT_TRUE(result.ok()) << body << ", pp " << pp << ": " << result.faults.front().text();
          const int whole = mpipe.trains && !mpipe.splits_backward ? microbatches : 0;
          const int halves = mpipe.splits_backward ? microbatches : 0;
          EXPECT_EQ(count(schedule, MetaStepType::PREPROCESS_FORWARD), microbatches);
          EXPECT_EQ(count(schedule, MetaStepType::PREPROCESS_BACKWARD), whole);
          EXPECT_EQ(count(schedule, MetaStepType::PREPROCESS_BACKWARD_INPUT), halves);
          EXPECT_EQ(count(schedule, MetaStepType::PREPROCESS_BACKWARD_WEIGHT), halves);
        }
      }
    }
  }
}

TEST(Mpipe, EncodesMicrobatchJOnRankJModuloTheSmallerOfRanksAndMicrobatches) {
  const Schedule schedule = lowered("1f1b", 4, 3, mpipe_with(true));
  for (int rank = 0; rank < 4; ++rank) {
    std::set<int> own;
    for (const MetaStep step : schedule.ranks[static_cast<std::size_t>(rank)].steps) {
      if (step.type() == MetaStepType::PREPROCESS_FORWARD) own.insert(step.microbatch().value);
    }
    EXPECT_EQ(own, rank < 3 ? std::set<int>{rank} : std::set<int>{});
  }
}

TEST(Mpipe, OfDataAloneSendsDataAndNoFeaturesAndAFrozenEncoderSendsNoGradients) {
  const Schedule data = lowered("1f1b", 4, 8, mpipe_with(true, /*encodes=*/false));
  EXPECT_EQ(count(data, MetaStepType::SEND_DATA), 6);
  EXPECT_EQ(count(data, MetaStepType::SEND_FEATURES) + count(data, MetaStepType::PREPROCESS_FORWARD), 0);
  const Schedule frozen = lowered("1f1b", 4, 8, mpipe_with(true, true, /*trains=*/false));
  EXPECT_EQ(count(frozen, MetaStepType::SEND_FEATURES), 6);
  EXPECT_EQ(count(frozen, MetaStepType::SEND_DATA) + count(frozen, MetaStepType::SEND_FEATURE_GRADS), 0);
}

TEST(Mpipe, LeavesDuplexBatchesAsTheyAre) {
  const std::int64_t without = count(lowered("interleaved_1f1b", 4, 8, {}, true), MetaStepType::BATCH_SEND_RECV);
  EXPECT_GT(without, 0);
  EXPECT_EQ(count(lowered("interleaved_1f1b", 4, 8, mpipe_with(true), true), MetaStepType::BATCH_SEND_RECV), without);
}

TEST(Mpipe, FaultsNameAFeatureThatIsNotThereAndADuplicate) {
  Schedule missing = lowered("1f1b", 2, 4, mpipe_with(false));
  std::erase_if(missing.ranks[0].steps, [](MetaStep step) {
    return step.type() == MetaStepType::RECV_FEATURES && step.microbatch().value == 1;
  });
  const VerifyResult result = verify_schedule(missing);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.faults.front().text().find("its features are made or received later or never"), std::string::npos);
  Schedule twice = lowered("1f1b", 2, 4, mpipe_with(false));
  twice.ranks[0].steps.insert(twice.ranks[0].steps.begin(), twice.ranks[0].steps.front());
  EXPECT_FALSE(verify_schedule(twice).ok());
}

std::string first_fault(const Schedule& schedule) {
  const VerifyResult result = verify_schedule(schedule);
  return result.ok() ? "proved" : result.faults.front().text();
}

/// One rank, one stage, one microbatch, with these steps in place of the encoder's backward.
std::string fault_of(const std::string& backward) {
  return first_fault(read_csv("0LOAD_DATA0,0PREPROCESS_FORWARD0,0F0,0B0," + backward, "s.csv"));
}

TEST(Mpipe, IsProvedWithTheEncodersBackwardInHalvesInAnyOrderOfMicrobatches) {
  for (const char* body : {"gpipe", "1f1b", "interleaved_1f1b", "zb_v"}) {
    for (const bool just_in_time : {false, true}) {
      const Schedule divided = test::with_divided_encoder(lowered(body, 4, 8, mpipe_with(just_in_time)));
      EXPECT_EQ(count(divided, MetaStepType::PREPROCESS_BACKWARD_INPUT), 8);
      EXPECT_EQ(count(divided, MetaStepType::PREPROCESS_BACKWARD_WEIGHT), 8);
      EXPECT_EQ(first_fault(divided), "proved") << body;
      EXPECT_EQ(csv_of(read_csv(csv_of(divided), "s.csv")), csv_of(divided));
    }
  }
  EXPECT_EQ(fault_of("0PREPROCESS_BACKWARD0"), "proved");
}

TEST(Mpipe, FaultsNameTheHalfOfABackwardThatIsMissingTwiceOrInTheWrongPlace) {
  const auto names = [](const std::string& backward, const std::string& reason) {
    EXPECT_NE(fault_of(backward).find(reason), std::string::npos) << backward << ": " << fault_of(backward);
  };
  names("0PREPROCESS_BACKWARD_INPUT0", "0PREPROCESS_BACKWARD_WEIGHT0 is missing");
  names("0PREPROCESS_BACKWARD_WEIGHT0", "its PREPROCESS_BACKWARD_INPUT comes later or never on this rank");
  names("0PREPROCESS_BACKWARD_WEIGHT0,0PREPROCESS_BACKWARD_INPUT0",
        "its PREPROCESS_BACKWARD_INPUT comes later or never on this rank");
  names("0PREPROCESS_BACKWARD_INPUT0,0PREPROCESS_BACKWARD0", "its backward is computed a second time");
  names("0PREPROCESS_BACKWARD0,0PREPROCESS_BACKWARD_WEIGHT0", "its weight gradients are computed a second time");
  names("0PREPROCESS_BACKWARD_INPUT0,0PREPROCESS_BACKWARD_WEIGHT0,0PREPROCESS_BACKWARD_WEIGHT0",
        "its weight gradients are computed a second time");
  EXPECT_NE(first_fault(read_csv("0LOAD_DATA0,0PREPROCESS_FORWARD0,0F0,0PREPROCESS_BACKWARD_INPUT0,0B0,"
                                 "0PREPROCESS_BACKWARD_WEIGHT0",
                                 "s.csv"))
                .find("the gradient of its features is made or received later or never"),
            std::string::npos);
}

TEST(Mpipe, RefusesAWeightHalfOnAnotherRankThanItsInputHalf) {
  Schedule schedule = test::with_divided_encoder(lowered("1f1b", 2, 4, mpipe_with(false)));
  schedule.ranks[0].steps.push_back(schedule.ranks[1].steps.back());
  schedule.ranks[1].steps.pop_back();
  EXPECT_NE(first_fault(schedule).find("its PREPROCESS_BACKWARD_INPUT comes later or never on this rank"),
            std::string::npos);
}

}  // namespace
}  // namespace ppctl
