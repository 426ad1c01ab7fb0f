#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.hpp"
#include "schedule/generator.hpp"
#include "schedule/pass.hpp"
#include "schedule/verify.hpp"
#include "unit/schedule/schedule_rows.hpp"

namespace ppctl {
namespace {

using ::testing::ElementsAre;
using testing::from_rows;
using testing::rows_of;

Schedule generated(const std::string& name, int pp, int chunks, int num_microbatches) {
  ScheduleSpec spec;
  spec.name = name;
  spec.pp = pp;
  spec.chunks = chunks;
  spec.num_microbatches = num_microbatches;
  return generate_schedule(spec);
}

std::vector<std::string> lowered(Schedule schedule, const PassOptions& options) {
  lower_schedule(schedule, options);
  return rows_of(schedule);
}

std::string refusal(Schedule schedule, const PassOptions& options) {
  try {
    lower_schedule(schedule, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

std::ptrdiff_t count_of(const Schedule& schedule, MetaStepType type) {
  std::ptrdiff_t count = 0;
  for (const RankSteps& rank : schedule.ranks) count += std::ranges::count(rank.steps, type, &MetaStep::type);
  return count;
}

TEST(Communication, StandsDirectlyAtProducerAndConsumer) {
  EXPECT_THAT(lowered(generated("1f1b", 2, 1, 3), {}),
              ElementsAre("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0F2,0SEND_F2,0RECV_B1,0B1,0RECV_B2,0B2",
                          "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1RECV_F2,1F2,1B2,1SEND_B2"));
}

TEST(Communication, IsNotNeededBetweenStagesOfOneRank) {
  const Schedule v_shaped = from_rows({"0F0,3F0,3B0,0B0", "1F0,2F0,2B0,1B0"});
  ASSERT_EQ(v_shaped.placement.kind(), PlacementKind::kV);
  EXPECT_THAT(lowered(v_shaped, {}), ElementsAre("0F0,0SEND_F0,3RECV_F0,3F0,3B0,3SEND_B0,0RECV_B0,0B0",
                                                 "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2B0,1B0,1SEND_B0"));
  EXPECT_THAT(lowered(from_rows({"0F0,1F0,1B0,0B0"}), {}), ElementsAre("0F0,1F0,1B0,0B0"));
}

TEST(Communication, PostsReceivesInTheOrderOfTheSendsWhereConsumptionDiffers) {
  const Schedule schedule = from_rows({"0F0,0F1,0F2,0B0,0B1,0B2", "1F2,1F0,1F1,1B0,1B2,1B1"});
  EXPECT_THAT(lowered(schedule, {}),
              ElementsAre("0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0RECV_B0,0B0,0RECV_B2,0RECV_B1,0B1,0B2",
                          "1RECV_F0,1RECV_F1,1RECV_F2,1F2,1F0,1F1,1B0,1SEND_B0,1B2,1SEND_B2,1B1,1SEND_B1"));
}

TEST(Communication, ReceivesForBothHalvesOfAPairBeforeIt) {
  const auto rows = lowered(generated("1f1b", 2, 1, 3), {.overlap_b_f = true});
  EXPECT_THAT(rows,
              ElementsAre("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,(0B0;0F2)OVERLAP_B_F,0SEND_F2,0RECV_B1,0B1,0RECV_B2,0B2",
                          "1RECV_F0,1F0,1RECV_F1,(1B0;1F1)OVERLAP_B_F,1SEND_B0,1RECV_F2,(1B1;1F2)OVERLAP_B_F,1SEND_B1,"
                          "1B2,1SEND_B2"));
}

TEST(Communication, RefusesAScheduleThatIsLoweredAlready) {
  Schedule schedule = generated("1f1b", 2, 1, 3);
  lower_schedule(schedule, {});
  EXPECT_EQ(
      refusal(schedule, {}),
      "schedule 1f1b: rank 0, step 1 is SEND_FORWARD; passes lower a schedule of compute steps only, and this one is "
      "lowered already");
}

TEST(Lowering, RefusesStepsThatThePlacementDoesNotKnow) {
  Schedule schedule = generated("1f1b", 2, 1, 3);
  schedule.ranks[1].steps[2] = MetaStep(MetaStepType::FORWARD, StageId(7), MicrobatchId(0));
  EXPECT_EQ(refusal(schedule, {}),
            "schedule 1f1b: rank 1, step 2 (7F0): there is no stage 7; the schedule has stages 0 to 1");
}

TEST(Lowering, WritesDownThePassesThatItApplied) {
  Schedule schedule = generated("1f1b", 2, 1, 3);
  lower_schedule(schedule, {.overlap_p2p = true, .duplex = true, .fsdp = true});
  EXPECT_THAT(schedule.passes, ElementsAre("communication", "overlap_p2p", "duplex", "fsdp"));
}

TEST(OverlapP2p, PostsReceivesOneBeatAhead) {
  EXPECT_THAT(lowered(generated("1f1b", 2, 1, 3), {.overlap_p2p = true}),
              ElementsAre("0F0,0SEND_F0,0RECV_B0,0F1,0SEND_F1,0B0,0RECV_B1,0F2,0SEND_F2,0RECV_B2,0B1,0B2",
                          "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1RECV_F2,1B1,1SEND_B1,1F2,1B2,1SEND_B2"));
}

TEST(Duplex, JoinsWhatBothEndsReachTogether) {
  EXPECT_THAT(
      lowered(generated("1f1b", 2, 1, 3), {.duplex = true}),
      ElementsAre("0F0,0SEND_F0,0F1,(0SEND_F1;0RECV_B0)BATCH_SEND_RECV,0B0,0F2,(0SEND_F2;0RECV_B1)BATCH_SEND_RECV,"
                  "0B1,0RECV_B2,0B2",
                  "1RECV_F0,1F0,1B0,(1SEND_B0;1RECV_F1)BATCH_SEND_RECV,1F1,1B1,(1SEND_B1;1RECV_F2)BATCH_SEND_RECV,"
                  "1F2,1B2,1SEND_B2"));
}

TEST(Duplex, LeavesApartWhatWouldMakeAReceiveWait) {
  // Rank 1 receives microbatch 2 only after it sent the gradient of microbatch 0; in a batch of the two, rank 0 would
  // wait for both. And rank 0 receives that gradient only after it sent microbatch 1, which is what rank 1 waits for.
  Schedule schedule = from_rows({"0F0,0F1,0F2,0B0,0B1,0B2", "1F0,1B0,1F1,1B1,1F2,1B2"});
  EXPECT_THAT(lowered(schedule, {.duplex = true}),
              ElementsAre("0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0RECV_B0,0B0,0RECV_B1,0B1,0RECV_B2,0B2",
                          "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1RECV_F2,1F2,1B2,1SEND_B2"));
}

TEST(Duplex, StaysEffectiveBesideTheOtherPasses) {
  Schedule schedule = generated("interleaved_1f1b", 4, 2, 8);
  lower_schedule(schedule, {.overlap_b_f = true, .duplex = true});
  EXPECT_EQ(count_of(schedule, MetaStepType::BATCH_SEND_RECV), 56);
  for (const bool fsdp : {false, true}) {
    Schedule ahead = generated("interleaved_1f1b", 4, 2, 8);
    lower_schedule(ahead, {.overlap_b_f = true, .overlap_p2p = true, .duplex = true, .fsdp = fsdp, .swap = fsdp});
    EXPECT_EQ(count_of(ahead, MetaStepType::BATCH_SEND_RECV), 54);
  }
}

TEST(Duplex, MakesOneForwardOneBackwardRunOnOneCommunicatorAPair) {
  Schedule plain = generated("1f1b", 4, 1, 8);
  Schedule duplex = plain;
  lower_schedule(plain, {});
  lower_schedule(duplex, {.duplex = true});
  const VerifyOptions one_a_pair{.communicators = CommunicatorMap::kOnePerPair};
  EXPECT_FALSE(verify_schedule(plain, one_a_pair).ok());
  EXPECT_TRUE(verify_schedule(duplex, one_a_pair).ok());
}

TEST(SplitBackward, DefersWeightGradientsToTheDrain) {
  EXPECT_THAT(lowered(generated("1f1b", 2, 1, 3), {.split_backward = true}),
              ElementsAre("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0W0,0F2,0SEND_F2,0RECV_B1,0I1,0W1,0RECV_B2,0I2,0W2",
                          "1RECV_F0,1F0,1I0,1SEND_B0,1RECV_F1,1F1,1I1,1SEND_B1,1W0,1RECV_F2,1F2,1I2,1SEND_B2,1W1,1W2"));
}

TEST(SplitBackward, OfOneForwardOneBackwardNeedsNoMoreThanItsFirstRank) {
  for (int pp = 1; pp <= 8; ++pp) {
    for (const int num_microbatches : {1, 3, 8, 20}) {
      Schedule whole = generated("1f1b", pp, 1, num_microbatches);
      Schedule split = whole;
      lower_schedule(whole, {});
      lower_schedule(split, {.split_backward = true});
      const int peak = std::ranges::max(verify_schedule(whole).peak_chunks);
      EXPECT_EQ(std::ranges::max(verify_schedule(split).peak_chunks), peak) << pp << ' ' << num_microbatches;
    }
  }
}

TEST(SplitBackward, IsRefusedWhereBackwardsAreSplit) {
  EXPECT_EQ(refusal(generated("zb_h1", 2, 1, 4), {.split_backward = true}),
            "split_backward: schedule zb_h1 splits or overlaps backwards itself");
  EXPECT_EQ(refusal(generated("dualpipe_v", 2, 2, 4), {.split_backward = true}),
            "split_backward: schedule dualpipe_v splits or overlaps backwards itself");
}

TEST(OverlapBF, KeepsTheWarmUpAndTheDrain) {
  Schedule schedule = generated("interleaved_1f1b", 4, 2, 16);
  const std::vector<int> before = verify_schedule(schedule, {.communication = false}).peak_chunks;
  const auto num_steps = schedule.ranks[0].steps.size();
  lower_schedule(schedule, {.overlap_b_f = true});
  EXPECT_EQ(before[0], 11);
  EXPECT_EQ(verify_schedule(schedule).peak_chunks[0], 12);
  // 10 warm-up forwards, F, 21 pairs, B and 10 drain backwards.
  std::vector<MetaStep> beats;
  for (const MetaStep step : schedule.ranks[0].steps) {
    if (is_compute(step.type()) || step.type() == MetaStepType::OVERLAP_B_F) beats.push_back(step);
  }
  ASSERT_EQ(beats.size(), num_steps - 21);
  EXPECT_TRUE(
      std::all_of(beats.begin(), beats.begin() + 11, [](MetaStep s) { return s.type() == MetaStepType::FORWARD; }));
  EXPECT_TRUE(std::all_of(beats.begin() + 11, beats.begin() + 32,
                          [](MetaStep s) { return s.type() == MetaStepType::OVERLAP_B_F; }));
  EXPECT_TRUE(
      std::all_of(beats.begin() + 32, beats.end(), [](MetaStep s) { return s.type() == MetaStepType::BACKWARD; }));
}

TEST(OverlapBF, IsRefusedWhereThereIsNothingToPair) {
  EXPECT_EQ(refusal(generated("gpipe", 2, 1, 4), {.overlap_b_f = true}),
            "overlap_b_f: schedule gpipe with 4 microbatches has no backward directly followed by a forward");
  EXPECT_EQ(refusal(generated("zb_h1", 2, 1, 4), {.overlap_b_f = true}),
            "overlap_b_f: pairs need whole backwards; schedule zb_h1 has them split into dx and dw");
}

TEST(OverlapBF, IsRefusedWhereThePairsWouldWaitForEachOther) {
  // Rank 0 has warmed up with one forward only: its pair needs the gradient that needs the forward inside the pair of
  // rank 1.
  const Schedule shallow = from_rows({"0F0,0B0,0F1,0B1", "1F0,1B0,1F1,1B1"});
  EXPECT_EQ(
      refusal(shallow, {.overlap_b_f = true}),
      "overlap_b_f: schedule rows.csv with 2 microbatches cannot run its pairs: rank 0, step 1 ((0B0;0F1)OVERLAP_B_F): "
      "deadlock of 2 ranks with compute steps only: waits for 0RECV_B0 from rank 1, which is at step 1 "
      "((1B0;1F1)OVERLAP_B_F)");
}

TEST(OverlapBF, LeavesOwnPairsAloneAndUndoesThemWhenItIsOff) {
  Schedule on = generated("dualpipe_v", 2, 2, 4);
  Schedule off = on;
  const auto pairs = count_of(on, MetaStepType::OVERLAP_B_F);
  ASSERT_GT(pairs, 0);
  lower_schedule(on, {.overlap_b_f = true});
  lower_schedule(off, {});
  EXPECT_EQ(count_of(on, MetaStepType::OVERLAP_B_F), pairs);
  EXPECT_EQ(count_of(off, MetaStepType::OVERLAP_B_F), 0);
  EXPECT_TRUE(verify_schedule(on).ok());
  EXPECT_TRUE(verify_schedule(off).ok());
  EXPECT_THAT(off.passes, ElementsAre("sequential_b_f", "communication"));
}

TEST(Fsdp, UnshardsAheadAndReducesAfterTheLastGradient) {
  EXPECT_THAT(lowered(generated("interleaved_1f1b", 2, 2, 2), {.fsdp = true})[0],
              "0UNSHARD,2UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2SEND_F0,2RECV_F1,2F1,2SEND_F1,2RECV_B0,2B0,"
              "2SEND_B0,2RECV_B1,2B1,2SEND_B1,0RECV_B0,2REDUCE_GRAD,2RESHARD,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD");
}

TEST(Fsdp, FreesAfterABlockWhatItsLookAheadDoesNotNeed) {
  const PassOptions options{.fsdp = true, .reshard_after_forward = true, .unshard_lookahead = 1};
  EXPECT_THAT(lowered(generated("interleaved_1f1b", 2, 2, 2), options)[0],
              "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,0RESHARD,2UNSHARD,2F0,2SEND_F0,2RECV_F1,2F1,2SEND_F1,"
              "2RECV_B0,2B0,2SEND_B0,2RECV_B1,2B1,2SEND_B1,0RECV_B0,2REDUCE_GRAD,2RESHARD,0UNSHARD,0B0,0RECV_B1,0B1,"
              "0REDUCE_GRAD,0RESHARD");
}

TEST(Fsdp, ReducesAfterEveryMicrobatchWhenAsked) {
  EXPECT_THAT(lowered(generated("1f1b", 2, 1, 2), {.fsdp = true, .reduce_every_microbatch = true})[0],
              "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0REDUCE_GRAD,0B1,0REDUCE_GRAD,0RESHARD");
}

TEST(Fsdp, WaitsForTheLastWeightGradientWhereBackwardsAreSplit) {
  EXPECT_THAT(lowered(generated("1f1b", 2, 1, 2), {.split_backward = true, .fsdp = true})[1],
              "1RECV_F0,1UNSHARD,1F0,1I0,1SEND_B0,1RECV_F1,1F1,1I1,1SEND_B1,1W0,1W1,1REDUCE_GRAD,1RESHARD");
}

TEST(Fsdp, RefusesALookAheadOfNothing) {
  EXPECT_EQ(refusal(generated("1f1b", 2, 1, 2), {.fsdp = true, .unshard_lookahead = 0}),
            "fsdp: unshard_lookahead is 0; it must be at least 1");
}

TEST(Swap, GivesEachTransferOneBeatToHideUnder) {
  EXPECT_THAT(
      lowered(generated("gpipe", 1, 1, 4), {.swap = true}),
      ElementsAre("0F0,0LAUNCH_OFFLOAD0,0F1,0WAIT_OFFLOAD0,0LAUNCH_OFFLOAD1,0F2,0WAIT_OFFLOAD1,0LAUNCH_OFFLOAD2,"
                  "0LAUNCH_LOAD0,0F3,0WAIT_OFFLOAD2,0LAUNCH_OFFLOAD3,0LAUNCH_LOAD1,0WAIT_LOAD0,0B0,0WAIT_OFFLOAD3,"
                  "0LAUNCH_LOAD2,0WAIT_LOAD1,0B1,0LAUNCH_LOAD3,0WAIT_LOAD2,0B2,0WAIT_LOAD3,0B3"));
}

TEST(Swap, LeavesWhatComesBackSoon) {
  Schedule schedule = generated("1f1b", 2, 1, 8);
  lower_schedule(schedule, {.swap = true});
  EXPECT_EQ(count_of(schedule, MetaStepType::LAUNCH_OFFLOAD), 0);
}

TEST(Swap, LowersThePeak) {
  Schedule schedule = generated("gpipe", 2, 1, 16);
  lower_schedule(schedule, {.swap = true});
  EXPECT_THAT(verify_schedule(schedule).peak_chunks, ElementsAre(3, 3));
}

TEST(Swap, RefusesADistanceInWhichNothingFits) {
  EXPECT_EQ(refusal(generated("gpipe", 1, 1, 4), {.swap = true, .swap_distance = 2}),
            "swap: swap_distance is 2; it must be at least 3, so that an offload ends before its load begins");
}

}  // namespace
}  // namespace ppctl
