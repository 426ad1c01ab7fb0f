#include "schedule/verify.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.hpp"
#include "schedule/generator.hpp"
#include "schedule/pass.hpp"
#include "unit/schedule/schedule_rows.hpp"

namespace ppctl {
namespace {

using ::testing::ElementsAre;
using testing::from_rows;

/// Two ranks, two microbatches, lowered: the schedule that the tests below break.
Schedule two_ranks() {
  return from_rows(
      {"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1", "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1"});
}

MetaStep step_of(MetaStepType type, int stage, int microbatch, int peer = -1) {
  return MetaStep(type, StageId(stage), MicrobatchId(microbatch), PipelineRank(peer));
}

std::vector<std::string> faults_of(const Schedule& schedule, const VerifyOptions& options = {}) {
  std::vector<std::string> texts;
  for (const ScheduleFault& fault : verify_schedule(schedule, options).faults) texts.push_back(fault.text());
  return texts;
}
std::vector<std::string> faults_of_rows(const std::vector<std::string>& rows, const VerifyOptions& options = {}) {
  return faults_of(from_rows(rows), options);
}

TEST(Verifier, ProvesACorrectSchedule) {
  const VerifyResult result = verify_schedule(two_ranks());
  EXPECT_TRUE(result.ok());
  EXPECT_THAT(result.peak_chunks, ElementsAre(2, 1));
  EXPECT_TRUE(result.backward_in_order);
}

TEST(Verifier, SaysWhetherBackwardsAreInOrder) {
  const Schedule schedule = from_rows({"0F0,0F1,0B1,0B0"});
  EXPECT_TRUE(verify_schedule(schedule).ok());
  EXPECT_FALSE(verify_schedule(schedule).backward_in_order);
  EXPECT_FALSE(verify_schedule(from_rows({"0F0,0F1,0I0,0I1,0W1,0W0"})).backward_in_order);
  EXPECT_TRUE(verify_schedule(from_rows({"0F0,0F1,0I0,0I1,0W0,0W1"})).backward_in_order);
}

TEST(Verifier, CountsActivationsUntilTheWeightGradient) {
  EXPECT_THAT(verify_schedule(from_rows({"0F0,0I0,0F1,0I1,0W0,0W1"})).peak_chunks, ElementsAre(2));
  EXPECT_THAT(verify_schedule(from_rows({"0F0,0I0,0W0,0F1,0I1,0W1"})).peak_chunks, ElementsAre(1));
}

// Shape: what a schedule made by hand or read from a file may have wrong.

TEST(Verifier, RefusesStagesAndMicrobatchesThatAreNotThere) {
  Schedule schedule = two_ranks();
  schedule.ranks[1].steps[2] = step_of(MetaStepType::BACKWARD, 9, 0);
  EXPECT_THAT(faults_of(schedule),
              ElementsAre("rank 1, step 2 (9B0): there is no stage 9; the schedule has stages 0 to 1"));
  schedule.ranks[1].steps[2] = step_of(MetaStepType::BACKWARD, 1, 2);
  EXPECT_THAT(faults_of(schedule),
              ElementsAre("rank 1, step 2 (1B2): there is no microbatch 2; the schedule has microbatches 0 to 1"));
  schedule.ranks[1].steps[2] = MetaStep();
  EXPECT_THAT(faults_of(schedule),
              ElementsAre("rank 1, step 2 (F): there is no stage -1; the schedule has stages 0 to 1"));
  schedule.ranks[1].steps[2] = MetaStep(MetaStepType::BACKWARD, StageId(1));
  EXPECT_THAT(faults_of(schedule),
              ElementsAre("rank 1, step 2 (1B): there is no microbatch -1; the schedule has microbatches 0 to 1"));
}

TEST(Verifier, RefusesStepsOnTheWrongRank) {
  Schedule schedule = two_ranks();
  schedule.ranks[1].steps[2] = step_of(MetaStepType::BACKWARD, 0, 0);
  EXPECT_THAT(faults_of(schedule), ElementsAre("rank 1, step 2 (0B0): microbatch 0 of stage 0 belongs to rank 0"));
  schedule.ranks[1].steps[2] = MetaStep(MetaStepType::UNSHARD, StageId(0));
  EXPECT_THAT(faults_of(schedule), ElementsAre("rank 1, step 2 (0UNSHARD): rank 1 does not hold stage 0"));
}

TEST(Verifier, RefusesWrongAndMissingPeers) {
  Schedule schedule = two_ranks();
  schedule.ranks[0].steps[1] = step_of(MetaStepType::SEND_FORWARD, 0, 0, 0);
  EXPECT_THAT(faults_of(schedule), ElementsAre("rank 0, step 1 (0SEND_F0): it names rank 0; the other end is rank 1"));
  schedule.ranks[0].steps[1] = step_of(MetaStepType::SEND_FORWARD, 0, 0);
  EXPECT_THAT(faults_of(schedule), ElementsAre("rank 0, step 1 (0SEND_F0): it names no peer; the other end is rank 1"));
  schedule.ranks[0].steps[1] = step_of(MetaStepType::SEND_BACKWARD, 0, 0, 1);
  EXPECT_THAT(faults_of(schedule), ElementsAre("rank 0, step 1 (0SEND_B0): there is no stage before stage 0"));
  schedule = two_ranks();
  schedule.ranks[1].steps[3] = step_of(MetaStepType::SEND_FORWARD, 1, 0, 0);
  EXPECT_THAT(faults_of(schedule), ElementsAre("rank 1, step 3 (1SEND_F0): there is no stage after stage 1"));
}

TEST(Verifier, RefusesCommunicationWithinARank) {
  Schedule schedule = from_rows({"0F0,1F0,1B0,0B0"});
  schedule.ranks[0].steps.insert(schedule.ranks[0].steps.begin() + 1, step_of(MetaStepType::SEND_FORWARD, 0, 0, 0));
  EXPECT_THAT(faults_of(schedule),
              ElementsAre("rank 0, step 1 (0SEND_F0): stage 1 is on the same rank; tensors pass between them "
                          "without communication"));
}

TEST(Verifier, RefusesCompositesWithTheWrongParts) {
  Schedule schedule = two_ranks();
  const MetaStep backward = schedule.ranks[1].steps[2];
  schedule.ranks[1].steps[2] = MetaStep::composite(MetaStepType::OVERLAP_B_F, 5, 2);
  EXPECT_THAT(faults_of(schedule), ElementsAre("rank 1, step 2 (OVERLAP_B_F): its sub-steps are not there"));
  schedule.ranks[1].sub_steps = {backward, backward};
  schedule.ranks[1].steps[2] = MetaStep::composite(MetaStepType::OVERLAP_B_F, 0, 2);
  EXPECT_THAT(faults_of(schedule),
              ElementsAre("rank 1, step 2 ((1B0;1B0)OVERLAP_B_F): an OVERLAP_B_F is a backward and then a forward"));
  schedule.ranks[1].steps[2] = MetaStep::composite(MetaStepType::BATCH_SEND_RECV, 0, 2, PipelineRank(0));
  EXPECT_THAT(faults_of(schedule),
              ElementsAre("rank 1, step 2 ((1B0;1B0)BATCH_SEND_RECV): a BATCH_SEND_RECV has sends and receives only"));
  schedule.ranks[1].sub_steps = {step_of(MetaStepType::SEND_BACKWARD, 1, 0, 0),
                                 step_of(MetaStepType::RECV_FORWARD, 1, 1, 1)};
  EXPECT_THAT(faults_of(schedule),
              ElementsAre("rank 1, step 2 ((1SEND_B0;1RECV_F1)BATCH_SEND_RECV): a BATCH_SEND_RECV has one peer"));
  schedule.ranks[1].sub_steps = {schedule.ranks[1].steps[2], schedule.ranks[1].steps[2]};
  EXPECT_THAT(faults_of(schedule), ElementsAre("rank 1, step 2 (BATCH_SEND_RECV): its sub-steps are not there"));
}

TEST(Verifier, RefusesAScheduleWhosePartsDoNotFitTogether) {
  Schedule schedule = two_ranks();
  schedule.ranks.pop_back();
  EXPECT_THAT(faults_of(schedule), ElementsAre("the schedule has steps of 1 ranks, its placement has 2"));
  schedule = two_ranks();
  schedule.num_microbatches = 0;
  EXPECT_THAT(faults_of(schedule), ElementsAre("the schedule has no microbatches"));
  schedule.num_microbatches = 1'000'000;
  EXPECT_THAT(faults_of(schedule),
              ElementsAre("2 stages with 1000000 microbatches take at least 4000000 steps, there are 16"));
  schedule.placement = Placement(PlacementKind::kLoop, 2, 30'000);
  EXPECT_THAT(faults_of(schedule),
              ElementsAre("60000 stages with 1000000 microbatches are more than a schedule can have"));
  EXPECT_THAT(faults_of(Schedule{}), ElementsAre("the schedule has steps of 0 ranks, its placement has 1"));
}

// Order of compute.

TEST(Verifier, RefusesStepsThatAreComputedTwice) {
  EXPECT_THAT(faults_of_rows({"0F0,0F0,0B0"}), ElementsAre("rank 0, step 1 (0F0): it is computed a second time"));
  EXPECT_THAT(faults_of_rows({"0F0,0B0,0B0"}), ElementsAre("rank 0, step 2 (0B0): it is computed a second time"));
  EXPECT_THAT(faults_of_rows({"0F0,0I0,0I0,0W0"}), ElementsAre("rank 0, step 2 (0I0): it is computed a second time"));
  EXPECT_THAT(faults_of_rows({"0F0,0B0,0W0"}), ElementsAre("rank 0, step 2 (0W0): it is computed a second time"));
}

TEST(Verifier, RefusesStepsThatAreMissing) {
  EXPECT_THAT(faults_of_rows({"0F0,0F1,0B0,0I1"}), ElementsAre("rank 0: 0W1 is missing"));
  EXPECT_THAT(faults_of_rows({"0F0,0F1,0B0,0UNSHARD"}), ElementsAre("rank 0: 0B1 is missing"));
}

TEST(Verifier, RefusesGradientsInTheWrongOrder) {
  EXPECT_THAT(faults_of_rows({"0B0,0F0"}), ElementsAre("rank 0, step 0 (0B0): its forward comes later or never"));
  EXPECT_THAT(faults_of_rows({"0F0,0W0,0I0"}),
              ElementsAre("rank 0, step 1 (0W0): its BACKWARD_INPUT comes later or never"));
}

TEST(Verifier, RefusesUseBeforeTheOtherStageOfTheRank) {
  EXPECT_THAT(faults_of_rows({"1F0,0F0,1B0,0B0"}),
              ElementsAre("rank 0, step 0 (1F0): the stage before, on the same rank, computes it later or never"));
  EXPECT_THAT(faults_of_rows({"0F0,1F0,0B0,1B0"}),
              ElementsAre("rank 0, step 2 (0B0): the stage after, on the same rank, computes it later or never"));
}

TEST(Verifier, KnowsThatAPairRunsBothHalvesAtOnce) {
  EXPECT_THAT(faults_of_rows({"0F0,1F0,(1B0;0F1)OVERLAP_B_F,(0B0;1F1)OVERLAP_B_F,1B1,0B1"}), ElementsAre());
  // The forward of stage 1 needs that of stage 0, which runs in the same pair's other half only if it were done before.
  EXPECT_THAT(
      faults_of_rows({"0F0,1F0,(1B0;1F1)OVERLAP_B_F,0F1,0B0,1B1,0B1"}),
      ElementsAre(
          "rank 0, step 2 ((1B0;1F1)OVERLAP_B_F): the stage before, on the same rank, computes it later or never"));
}

// Messages.

TEST(Verifier, RefusesReceivesAfterUse) {
  EXPECT_THAT(faults_of_rows({"0F0,0SEND_F0,0RECV_B0,0B0", "1F0,1RECV_F0,1B0,1SEND_B0"}),
              ElementsAre("rank 1, step 0 (1F0): its input from rank 0 is received later or never"));
  EXPECT_THAT(faults_of_rows({"0F0,0SEND_F0,0B0,0RECV_B0", "1RECV_F0,1F0,1B0,1SEND_B0"}),
              ElementsAre("rank 0, step 2 (0B0): its gradient from rank 1 is received later or never"));
}

TEST(Verifier, RefusesSendsOfWhatIsNotComputed) {
  EXPECT_THAT(faults_of_rows({"0SEND_F0,0F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"}),
              ElementsAre("rank 0, step 0 (0SEND_F0): what it sends is computed later or never"));
  EXPECT_THAT(faults_of_rows({"0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1SEND_B0,1B0"}),
              ElementsAre("rank 1, step 2 (1SEND_B0): what it sends is computed later or never"));
}

TEST(Verifier, RefusesMessagesThatAreDoubleOrWithoutTheirOtherEnd) {
  EXPECT_THAT(faults_of_rows({"0F0,0SEND_F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"}),
              ElementsAre("rank 0, step 2 (0SEND_F0): it is sent a second time"));
  EXPECT_THAT(faults_of_rows({"0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1RECV_F0,1F0,1B0,1SEND_B0"}),
              ElementsAre("rank 1, step 1 (1RECV_F0): it is received a second time"));
  EXPECT_THAT(faults_of_rows({"0F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"}),
              ElementsAre("rank 0: 0SEND_F0 is missing"));
  EXPECT_THAT(faults_of_rows({"0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0"}),
              ElementsAre("rank 1: 1SEND_B0 is missing"));
}

TEST(Verifier, RefusesCommunicationInAScheduleOfComputeStepsOnly) {
  EXPECT_THAT(faults_of_rows({"0F0,0SEND_F0,0B0", "1F0,1B0"}, {.communication = false}),
              ElementsAre("rank 0, step 1 (0SEND_F0): a schedule of compute steps only has no communication"));
}

// Deadlock.

TEST(Verifier, NamesTheCycleOfADeadlockOfComputeSteps) {
  EXPECT_THAT(
      faults_of_rows({"0F0,0B0,0F1,0B1", "1F1,1B1,1F0,1B0"}, {.communication = false}),
      ElementsAre(
          "rank 0, step 1 (0B0): deadlock of 2 ranks with compute steps only: waits for 0RECV_B0 from rank 1, which "
          "is at step 0 (1F1)",
          "rank 1, step 0 (1F1): deadlock of 2 ranks with compute steps only: waits for 1RECV_F1 from rank 0, which "
          "is at step 1 (0B0)"));
}

TEST(Verifier, NamesTheCycleOfADeadlockWithTags) {
  EXPECT_THAT(
      faults_of_rows({"0F0,0SEND_F0,0RECV_B0,0B0,0F1,0SEND_F1,0RECV_B1,0B1",
                      "1RECV_F1,1F1,1B1,1SEND_B1,1RECV_F0,1F0,1B0,1SEND_B0"}),
      ElementsAre(
          "rank 0, step 3 (0B0): deadlock of 2 ranks with tags and buffered sends: waits for 0RECV_B0 from rank 1, "
          "which is at step 1 (1F1)",
          "rank 1, step 1 (1F1): deadlock of 2 ranks with tags and buffered sends: waits for 1RECV_F1 from rank 0, "
          "which is at step 3 (0B0)"));
}

TEST(Verifier, LeavesRanksThatOnlySufferOutOfTheCycle) {
  // Rank 0 waits for rank 1, which is one of the two that wait for each other.
  const auto starved =
      faults_of_rows({"0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1", "2F1,2B1,2F0,2B0"}, {.communication = false});
  EXPECT_THAT(
      starved,
      ElementsAre("rank 1, step 1 (1B0): deadlock of 2 ranks with compute steps only: waits for 1RECV_B0 from rank 2, "
                  "which is at step 0 (2F1)",
                  "rank 2, step 0 (2F1): deadlock of 2 ranks with compute steps only: waits for 2RECV_F1 from rank 1, "
                  "which is at step 1 (1B0)"));
}

TEST(Verifier, KnowsThatAReceiveOfABatchWaitsForTheWholeBatch) {
  // Rank 0 needs the gradient of microbatch 0 before it computes microbatch 1, but its batch waits for that of
  // microbatch 1 too.
  const std::vector<std::string> rows{"0F0,0SEND_F0,(0RECV_B0;0RECV_B1)BATCH_SEND_RECV,0B0,0F1,0SEND_F1,0B1",
                                      "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1"};
  EXPECT_THAT(faults_of_rows(rows),
              ElementsAre("rank 0, step 3 (0B0): deadlock of 2 ranks with tags and buffered sends: waits for 0RECV_B0 "
                          "from rank 1, which is at step 5 (1F1)",
                          "rank 1, step 5 (1F1): deadlock of 2 ranks with tags and buffered sends: waits for 1RECV_F1 "
                          "from rank 0, which is at step 3 (0B0)"));
}

TEST(Verifier, SeparatesRendezvousFromTags) {
  // Rank 1 receives in another order than rank 0 sends: tags sort that out, a communicator without tags cannot.
  const std::vector<std::string> rows{"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B1,0B1,0RECV_B0,0B0",
                                      "1RECV_F1,1F1,1B1,1SEND_B1,1RECV_F0,1F0,1B0,1SEND_B0"};
  EXPECT_THAT(faults_of_rows(rows, {.in_order_rendezvous = false}), ElementsAre());
  EXPECT_THAT(faults_of_rows(rows),
              ElementsAre("rank 1, step 0 (1RECV_F1): with in-order rendezvous it meets step 1 (0SEND_F0) of rank 0 on "
                          "their communicator, which is not its counterpart"));
}

TEST(Verifier, MapsEdgesToCommunicators) {
  // Rank 0 sends microbatch 1 before it receives gradient 0; rank 1 sends that gradient before it receives
  // microbatch 1.
  const std::vector<std::string> rows{"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
                                      "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1"};
  EXPECT_THAT(faults_of_rows(rows, {.communicators = CommunicatorMap::kOnePerDirectionAndKind}), ElementsAre());
  EXPECT_THAT(faults_of_rows(rows, {.communicators = CommunicatorMap::kOnePerDirection}), ElementsAre());
  EXPECT_THAT(
      faults_of_rows(rows, {.communicators = CommunicatorMap::kOnePerPair}),
      ElementsAre("rank 1, step 3 (1SEND_B0): with in-order rendezvous it meets step 3 (0SEND_F1) of rank 0 on their "
                  "communicator, which is not its counterpart"));
  // As one grouped operation at both ends, the two transfers do not need an order.
  EXPECT_THAT(faults_of_rows({"0F0,0SEND_F0,0F1,(0SEND_F1;0RECV_B0)BATCH_SEND_RECV,0B0,0RECV_B1,0B1",
                              "1RECV_F0,1F0,1B0,(1SEND_B0;1RECV_F1)BATCH_SEND_RECV,1F1,1B1,1SEND_B1"},
                             {.communicators = CommunicatorMap::kOnePerPair}),
              ElementsAre());
}

TEST(Verifier, LetsAGroupMeetSingleOperations) {
  EXPECT_THAT(faults_of_rows({"0F0,0F1,(0SEND_F0;0SEND_F1)BATCH_SEND_RECV,0RECV_B0,0B0,0RECV_B1,0B1",
                              "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1B1,(1SEND_B0;1SEND_B1)BATCH_SEND_RECV"},
                             {.communicators = CommunicatorMap::kOnePerPair}),
              ElementsAre());
  EXPECT_THAT(
      faults_of_rows({"0F0,0F1,(0SEND_F0;0SEND_F1)BATCH_SEND_RECV,0RECV_B0,0B0,0RECV_B1,0B1",
                      "1RECV_F1,1F1,1RECV_F0,1F0,1B0,1SEND_B0,1B1,1SEND_B1"}),
      ElementsAre(
          "rank 1, step 0 (1RECV_F1): with in-order rendezvous it meets step 2 ((0SEND_F0;0SEND_F1)BATCH_SEND_RECV) of "
          "rank 0 on their communicator, which is not its counterpart"));
}

// Parameters and activations.

TEST(Verifier, RefusesUseOfShardedParameters) {
  const VerifyOptions fsdp{.fsdp = true};
  EXPECT_THAT(faults_of_rows({"0UNSHARD,0F0,0B0,0REDUCE_GRAD,0RESHARD"}, fsdp), ElementsAre());
  EXPECT_THAT(faults_of_rows({"0F0,0UNSHARD,0B0,0REDUCE_GRAD,0RESHARD"}, fsdp),
              ElementsAre("rank 0, step 0 (0F0): its stage's parameters are not unsharded"));
  EXPECT_THAT(faults_of_rows({"0UNSHARD,0F0,0RESHARD,0B0"}),
              ElementsAre("rank 0, step 3 (0B0): its stage's parameters are not unsharded"));
  EXPECT_THAT(faults_of_rows({"0UNSHARD,0UNSHARD,0F0,0B0"}),
              ElementsAre("rank 0, step 1 (0UNSHARD): its stage is unsharded already"));
  EXPECT_THAT(faults_of_rows({"0F0,0B0,0RESHARD"}),
              ElementsAre("rank 0, step 2 (0RESHARD): its stage is not unsharded"));
  EXPECT_THAT(faults_of_rows({"0UNSHARD,0F0,0B0,0REDUCE_GRAD"}, fsdp),
              ElementsAre("rank 0: stage 0 is left unsharded"));
}

TEST(Verifier, RefusesGradientsThatAreNotReducedAfterTheLastOne) {
  const VerifyOptions fsdp{.fsdp = true};
  EXPECT_THAT(faults_of_rows({"0UNSHARD,0F0,0B0,0RESHARD"}, fsdp),
              ElementsAre("rank 0: stage 0 has no REDUCE_GRAD after its last gradient"));
  EXPECT_THAT(faults_of_rows({"0UNSHARD,0F0,0I0,0REDUCE_GRAD,0W0,0RESHARD"}, fsdp),
              ElementsAre("rank 0: stage 0 has no REDUCE_GRAD after its last gradient"));
  EXPECT_THAT(faults_of_rows({"0F0,0REDUCE_GRAD,0B0"}),
              ElementsAre("rank 0, step 1 (0REDUCE_GRAD): its stage has no gradient that is not reduced"));
}

TEST(Verifier, RefusesUseOfActivationsThatAreAway) {
  EXPECT_THAT(faults_of_rows({"0F0,0LAUNCH_OFFLOAD0,0WAIT_OFFLOAD0,0LAUNCH_LOAD0,0WAIT_LOAD0,0B0"}), ElementsAre());
  EXPECT_THAT(faults_of_rows({"0F0,0LAUNCH_OFFLOAD0,0WAIT_OFFLOAD0,0LAUNCH_LOAD0,0B0"}),
              ElementsAre("rank 0, step 4 (0B0): its activations are still being loaded"));
  EXPECT_THAT(faults_of_rows({"0F0,0LAUNCH_OFFLOAD0,0B0,0WAIT_OFFLOAD0,0LAUNCH_LOAD0,0WAIT_LOAD0"}),
              ElementsAre("rank 0, step 2 (0B0): its activations are offloaded"));
  EXPECT_THAT(faults_of_rows({"0F0,0I0,0LAUNCH_OFFLOAD0,0WAIT_OFFLOAD0,0W0,0LAUNCH_LOAD0,0WAIT_LOAD0"}),
              ElementsAre("rank 0, step 4 (0W0): its activations are offloaded"));
}

TEST(Verifier, RefusesTransfersOfActivationsOutOfOrder) {
  EXPECT_THAT(faults_of_rows({"0LAUNCH_OFFLOAD0,0WAIT_OFFLOAD0,0LAUNCH_LOAD0,0WAIT_LOAD0,0F0,0B0"}),
              ElementsAre("rank 0, step 0 (0LAUNCH_OFFLOAD0): there are no activations to offload"));
  EXPECT_THAT(faults_of_rows({"0F0,0WAIT_OFFLOAD0,0LAUNCH_LOAD0,0WAIT_LOAD0,0B0"}),
              ElementsAre("rank 0, step 1 (0WAIT_OFFLOAD0): no offload is under way"));
  EXPECT_THAT(faults_of_rows({"0F0,0LAUNCH_LOAD0,0WAIT_LOAD0,0B0"}),
              ElementsAre("rank 0, step 1 (0LAUNCH_LOAD0): its activations are not offloaded"));
  EXPECT_THAT(faults_of_rows({"0F0,0WAIT_LOAD0,0B0"}),
              ElementsAre("rank 0, step 1 (0WAIT_LOAD0): no load is under way"));
  EXPECT_THAT(faults_of_rows({"0F0,0LAUNCH_OFFLOAD0,0LAUNCH_OFFLOAD0,0WAIT_OFFLOAD0,0LAUNCH_LOAD0,0WAIT_LOAD0,0B0"}),
              ElementsAre("rank 0, step 2 (0LAUNCH_OFFLOAD0): its activations are offloaded already"));
}

// How it is said.

TEST(Verifier, ShowsTheStepsAroundTheFault) {
  Schedule schedule = from_rows(
      {"0F0,0SEND_F0,0RECV_B0,0B0,0F1,0SEND_F1,0RECV_B1,0B1", "1RECV_F1,1F1,1B1,1SEND_B1,1RECV_F0,1F0,1B0,1SEND_B0"});
  schedule.name = "mine.csv";
  std::string text;
  try {
    verify_schedule_or_throw(schedule);
  } catch (const Error& error) {
    text = error.what();
  }
  EXPECT_EQ(text,
            "schedule mine.csv is wrong: rank 0, step 3 (0B0): deadlock of 2 ranks with tags and buffered sends: waits "
            "for 0RECV_B0 "
            "from rank 1, which is at step 1 (1F1) (and 1 more)\n"
            "  rank 0: 0:0F0 1:0SEND_F0 2:0RECV_B0 [3:0B0] 4:0F1 5:0SEND_F1 6:0RECV_B1 7:0B1\n"
            "  rank 1: 0:1RECV_F1 [1:1F1] 2:1B1 3:1SEND_B1 4:1RECV_F0 5:1F0 ...");
}

TEST(Verifier, CollectsTwentyFaultsAtMost) {
  ScheduleSpec spec;
  spec.name = "gpipe";
  spec.pp = 2;
  spec.num_microbatches = 64;
  Schedule schedule = generate_schedule(spec);
  lower_schedule(schedule, {});
  std::ranges::reverse(schedule.ranks[0].steps);
  EXPECT_EQ(verify_schedule(schedule).faults.size(), 20U);
}

}  // namespace
}  // namespace ppctl
