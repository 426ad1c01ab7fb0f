#include "simulate/simulate.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "schedule/generator.hpp"
#include "schedule/pass.hpp"
#include "schedule/text.hpp"
#include "trace/event_names.hpp"

namespace ppctl {
namespace {

Schedule generated(const std::string& name, int pp, int chunks, int num_microbatches) {
  ScheduleSpec spec;
  spec.name = name;
  spec.pp = pp;
  spec.chunks = chunks;
  spec.num_microbatches = num_microbatches;
  return generate_schedule(spec);
}

MetaStep step(MetaStepType type, int stage, int microbatch) {
  return MetaStep(type, StageId(stage), MicrobatchId(microbatch));
}

MetaStep message(MetaStepType type, int stage, int microbatch, int peer) {
  return MetaStep(type, StageId(stage), MicrobatchId(microbatch), PipelineRank(peer));
}

/// Two ranks and one microbatch, lowered by hand.
Schedule two_ranks_one_microbatch() {
  Schedule schedule;
  schedule.name = "by hand";
  schedule.placement = Placement(PlacementKind::kLoop, 2, 1);
  schedule.num_microbatches = 1;
  schedule.ranks.resize(2);
  schedule.ranks[0].steps = {step(MetaStepType::FORWARD, 0, 0), message(MetaStepType::SEND_FORWARD, 0, 0, 1),
                             message(MetaStepType::RECV_BACKWARD, 0, 0, 1), step(MetaStepType::BACKWARD, 0, 0)};
  schedule.ranks[1].steps = {message(MetaStepType::RECV_FORWARD, 1, 0, 0), step(MetaStepType::FORWARD, 1, 0),
                             step(MetaStepType::BACKWARD, 1, 0), message(MetaStepType::SEND_BACKWARD, 1, 0, 0)};
  return schedule;
}

TEST(Simulate, TimesASmallPipelineExactly) {
  const Simulation simulation = simulate(generated("1f1b", 2, 1, 2), uniform_costs(2, {}), {.timeline = true});
  // rank 0: F0 F1 . B0 B0 . B1 B1 ; rank 1: . F0 B0 B0 F1 B1 B1
  EXPECT_EQ(simulation.wall_ms, 9);
  EXPECT_EQ(simulation.span_ms, 9);
  EXPECT_EQ(simulation.ideal_ms, 6);
  EXPECT_EQ(simulation.ranks[0].idle.waits.size(), 1U);
  EXPECT_EQ(simulation.ranks[0].idle.waits[0].peer, PipelineRank(1));
  EXPECT_EQ(simulation.ranks[0].idle.waits[0].ms, 3);
  EXPECT_EQ(simulation.ranks[1].idle.warmup_ms, 1);
  EXPECT_EQ(simulation.ranks[1].idle.drain_ms, 2);
  EXPECT_EQ(simulation.ranks[0].peak_chunks, 2);
  EXPECT_EQ(simulation.ranks[1].peak_chunks, 1);
}

TEST(Simulate, AddsP2pTimeToEachDependencyThatCrossesRanks) {
  const Simulation compute = simulate(generated("gpipe", 2, 1, 1), uniform_costs(2, {}, 0.5));
  EXPECT_EQ(compute.wall_ms, 7);
  EXPECT_EQ(compute.p2p_messages, 2);
  EXPECT_EQ(compute.p2p_calls, 0);
  const Simulation lowered = simulate(two_ranks_one_microbatch(), uniform_costs(2, {}, 0.5));
  EXPECT_EQ(lowered.wall_ms, 7);
  EXPECT_EQ(lowered.p2p_messages, 2);
  EXPECT_EQ(lowered.p2p_calls, 4);
}

TEST(Simulate, LetsMessagesOfOneLinkShareItsBandwidth) {
  // Two sends at once of 1 MB at 8 Gbit/s: 1 ms each, one after the other, plus a latency of 0.25 ms that overlaps.
  CostModel costs = uniform_costs(2, {.output_bytes = 1e6});
  costs.link = {.latency_ms = 0.25, .bandwidth_gbps = 8};
  Schedule schedule = two_ranks_one_microbatch();
  schedule.num_microbatches = 2;
  schedule.ranks[0].steps = {step(MetaStepType::FORWARD, 0, 0), step(MetaStepType::FORWARD, 0, 1),
                             message(MetaStepType::SEND_FORWARD, 0, 0, 1),
                             message(MetaStepType::SEND_FORWARD, 0, 1, 1)};
  schedule.ranks[1].steps = {step(MetaStepType::FORWARD, 1, 0), step(MetaStepType::FORWARD, 1, 1)};
  const Simulation simulation = simulate(schedule, costs, {.timeline = true});
  EXPECT_DOUBLE_EQ(simulation.ranks[1].first_ms, 3.25);
  EXPECT_DOUBLE_EQ(simulation.wall_ms, 5.25);
}

TEST(Simulate, TakesALinkThatDiffersFromTheOthers) {
  CostModel costs = uniform_costs(2, {});
  costs.link_overrides = {{PipelineRank(1), PipelineRank(0), {.latency_ms = 10, .bandwidth_gbps = 0}}};
  EXPECT_EQ(simulate(generated("gpipe", 2, 1, 1), costs).wall_ms, 16);
}

TEST(Simulate, StartsATransferAtRendezvousWhenTheReceiveIsPosted) {
  Schedule schedule = two_ranks_one_microbatch();
  // Rank 1 first works for 6 ms on something of its own, and posts its receive only then.
  schedule.ranks[1].steps.insert(schedule.ranks[1].steps.begin(),
                                 MetaStep(MetaStepType::LOAD_DATA, StageId(1), MicrobatchId(0)));
  CostModel costs = uniform_costs(2, {}, 1);
  costs.load_data_ms = 6;
  EXPECT_EQ(simulate(schedule, costs).wall_ms, 6 + 1 + 2 + 1 + 2);
  costs.rendezvous = true;
  EXPECT_EQ(simulate(schedule, costs).wall_ms, 6 + 1 + 1 + 2 + 1 + 2);
}

TEST(Simulate, RunsAnOverlappedPairInOneStepThatHidesTheExchange) {
  Schedule schedule;
  schedule.placement = Placement(PlacementKind::kLoop, 1, 1);
  schedule.num_microbatches = 2;
  schedule.ranks.resize(1);
  const std::vector<MetaStep> pair = {step(MetaStepType::BACKWARD, 0, 0), step(MetaStepType::FORWARD, 0, 1)};
  schedule.ranks[0].steps = {step(MetaStepType::FORWARD, 0, 0)};
  schedule.ranks[0].push_composite(MetaStepType::OVERLAP_B_F, pair);
  schedule.ranks[0].steps.push_back(step(MetaStepType::BACKWARD, 0, 1));
  CostModel costs = uniform_costs(1, {});
  EXPECT_EQ(simulate(schedule, costs).wall_ms, 6);
  costs.overlap_factor = 0.8;
  const Simulation shorter = simulate(schedule, costs, {.timeline = true});
  EXPECT_DOUBLE_EQ(shorter.wall_ms, 1 + 2.4 + 2);
  EXPECT_EQ(shorter.ranks[0].peak_chunks, 2);
  EXPECT_EQ(shorter.timeline.ranks[0][1].kind, EventKind::kOverlapped);
  EXPECT_EQ(shorter.timeline.ranks[0][2].lane, 1);
  costs.overlap_factor = 1;
  costs.stages[0].forward_exchange_ms = 0.25;
  costs.stages[0].backward_exchange_ms = 0.5;
  EXPECT_DOUBLE_EQ(simulate(schedule, costs).wall_ms, 6 - 0.75);
}

TEST(Simulate, BlamesTheWaitOfAPairOnTheRankWhoseMessageCameLast) {
  Schedule schedule = generate_schedule({.name = "interleaved_1f1b", .pp = 2, .chunks = 2, .num_microbatches = 8});
  lower_schedule(schedule, {.overlap_b_f = true});
  // Stages whose exchanges have no number: both halves of a pair start at once.
  StageCosts stage{.forward_ms = 1, .dx_ms = 1, .dw_ms = 1};
  stage.forward_exchange_ms = stage.backward_exchange_ms = 0.1;
  CostModel costs = uniform_costs(4, stage);
  costs.stages[3].forward_ms = 2;
  costs.p2p_ms = 0.5;
  const Simulation simulation = simulate(schedule, costs);
  bool waited = false;
  for (std::size_t rank = 0; rank < simulation.ranks.size(); ++rank) {
    for (const PeerWait& wait : simulation.ranks[rank].idle.waits) {
      EXPECT_EQ(wait.peer.value, 1 - static_cast<int>(rank)) << wait.ms;
      waited = true;
    }
  }
  EXPECT_TRUE(waited);
}

TEST(Simulate, SendsWhatEachHalfOfAPairMakesWhenThatHalfEnds) {
  // The middle one of three ranks runs [1B0 1F1], 2 and 1 ms in turns, the backward first.
  Schedule schedule;
  schedule.placement = Placement(PlacementKind::kLoop, 3, 1);
  schedule.num_microbatches = 2;
  schedule.ranks.resize(3);
  auto& first = schedule.ranks[0].steps;
  auto& last = schedule.ranks[2].steps;
  for (const int m : {0, 1}) {
    first.push_back(step(MetaStepType::FORWARD, 0, m));
    first.push_back(message(MetaStepType::SEND_FORWARD, 0, m, 1));
    last.push_back(message(MetaStepType::RECV_FORWARD, 2, m, 1));
    last.push_back(step(MetaStepType::FORWARD, 2, m));
    last.push_back(step(MetaStepType::BACKWARD, 2, m));
    last.push_back(message(MetaStepType::SEND_BACKWARD, 2, m, 1));
  }
  for (const int m : {0, 1}) {
    first.push_back(message(MetaStepType::RECV_BACKWARD, 0, m, 1));
    first.push_back(step(MetaStepType::BACKWARD, 0, m));
  }
  RankSteps& middle = schedule.ranks[1];
  middle.steps = {message(MetaStepType::RECV_FORWARD, 1, 0, 0), step(MetaStepType::FORWARD, 1, 0),
                  message(MetaStepType::SEND_FORWARD, 1, 0, 2), message(MetaStepType::RECV_BACKWARD, 1, 0, 2),
                  message(MetaStepType::RECV_FORWARD, 1, 1, 0)};
  const std::vector<MetaStep> pair = {step(MetaStepType::BACKWARD, 1, 0), step(MetaStepType::FORWARD, 1, 1)};
  middle.push_composite(MetaStepType::OVERLAP_B_F, pair);
  middle.steps.insert(middle.steps.end(),
                      {message(MetaStepType::SEND_BACKWARD, 1, 0, 0), message(MetaStepType::SEND_FORWARD, 1, 1, 2),
                       message(MetaStepType::RECV_BACKWARD, 1, 1, 2), step(MetaStepType::BACKWARD, 1, 1),
                       message(MetaStepType::SEND_BACKWARD, 1, 1, 0)});
  CostModel costs = uniform_costs(3, {});
  const auto start_of = [&](int rank, EventKind kind, int microbatch) {
    const Simulation simulation = simulate(schedule, costs, {.timeline = true});
    for (const TimelineEvent& event : simulation.timeline.ranks[static_cast<std::size_t>(rank)]) {
      if (event.kind == kind && event.microbatch.value == microbatch) return event.start_ms;
    }
    return -1.0;
  };
  // At once: the backward's input comes at 5, both end at 8.
  EXPECT_EQ(start_of(0, EventKind::kBackward, 0), 8);
  EXPECT_EQ(start_of(2, EventKind::kForward, 1), 8);
  // In turns: the backward from 5 to 7, the forward until 8.
  costs.pairs_in_turns = true;
  EXPECT_EQ(start_of(0, EventKind::kBackward, 0), 7);
  EXPECT_EQ(start_of(2, EventKind::kForward, 1), 8);
  EXPECT_EQ(simulate(schedule, costs).ranks[1].busy_ms, 1 + 2 + 1 + 2);
}

TEST(Simulate, HoldsAComputeStepUntilItsStageIsUnsharded) {
  Schedule schedule;
  schedule.placement = Placement(PlacementKind::kLoop, 1, 2);
  schedule.num_microbatches = 1;
  schedule.ranks.resize(1);
  schedule.ranks[0].steps = {
      MetaStep(MetaStepType::UNSHARD, StageId(0)), MetaStep(MetaStepType::UNSHARD, StageId(1)),
      step(MetaStepType::FORWARD, 0, 0),           step(MetaStepType::FORWARD, 1, 0),
      step(MetaStepType::BACKWARD, 1, 0),          MetaStep(MetaStepType::REDUCE_GRAD, StageId(1)),
      step(MetaStepType::BACKWARD, 0, 0),          MetaStep(MetaStepType::REDUCE_GRAD, StageId(0))};
  const Simulation simulation = simulate(schedule, uniform_costs(2, {.all_gather_ms = 3, .reduce_scatter_ms = 5}));
  // UNSHARDs end at 3 and 6; F0 3-4, F1 6-7, B1 7-9, B0 9-11; reductions 9-14 and 14-19.
  EXPECT_EQ(simulation.ranks[0].idle.warmup_ms, 3);
  EXPECT_EQ(simulation.ranks[0].idle.collective_ms, 2);
  EXPECT_EQ(simulation.wall_ms, 19);
  EXPECT_EQ(simulation.ranks[0].idle.total_ms() + simulation.ranks[0].busy_ms, simulation.wall_ms);
}

TEST(Simulate, FreesMemoryWhileActivationsAreOffloaded) {
  Schedule schedule;
  schedule.placement = Placement(PlacementKind::kLoop, 1, 1);
  schedule.num_microbatches = 2;
  schedule.ranks.resize(1);
  const auto offloading =
      std::vector<MetaStep>{step(MetaStepType::FORWARD, 0, 0),      step(MetaStepType::LAUNCH_OFFLOAD, 0, 0),
                            step(MetaStepType::WAIT_OFFLOAD, 0, 0), step(MetaStepType::FORWARD, 0, 1),
                            step(MetaStepType::BACKWARD, 0, 1),     step(MetaStepType::LAUNCH_LOAD, 0, 0),
                            step(MetaStepType::WAIT_LOAD, 0, 0),    step(MetaStepType::BACKWARD, 0, 0)};
  schedule.ranks[0].steps = offloading;
  CostModel costs = uniform_costs(1, {.activation_bytes = 1e6, .state_bytes = 7});
  costs.offload_gbps = 4;  // 2 ms a move
  const Simulation simulation = simulate(schedule, costs);
  EXPECT_EQ(simulation.ranks[0].peak_chunks, 1);
  EXPECT_EQ(simulation.ranks[0].peak_bytes, 1e6 + 7);
  EXPECT_EQ(simulation.ranks[0].idle.offload_ms, 4);
  EXPECT_EQ(simulation.wall_ms, 10);
}

TEST(Simulate, SendsFeaturesFromTheRankThatEncodedThem) {
  Schedule schedule = two_ranks_one_microbatch();
  schedule.ranks[1].steps.insert(schedule.ranks[1].steps.begin(),
                                 {step(MetaStepType::LOAD_DATA, 0, 0), step(MetaStepType::PREPROCESS_FORWARD, 0, 0),
                                  message(MetaStepType::SEND_FEATURES, 0, 0, 0)});
  schedule.ranks[0].steps.insert(schedule.ranks[0].steps.begin(), message(MetaStepType::RECV_FEATURES, 0, 0, 1));
  CostModel costs = uniform_costs(2, {}, 0.5);
  costs.load_data_ms = 1;
  costs.encoder_forward_ms = 4;
  const Simulation simulation = simulate(schedule, costs);
  EXPECT_DOUBLE_EQ(simulation.ranks[0].first_ms, 5.5);
  EXPECT_DOUBLE_EQ(simulation.wall_ms, 5.5 + 1 + 0.5 + 3 + 0.5 + 2);
}

TEST(Simulate, TakesAnEncodersBackwardWholeOrInHalvesWithTheirOwnTimes) {
  CostModel costs = uniform_costs(1, {});  // F 1, B 2
  costs.encoder_forward_ms = 4;
  costs.encoder_dx_ms = 5;
  costs.encoder_dw_ms = 7;
  const Schedule whole = read_csv("0LOAD_DATA0,0PREPROCESS_FORWARD0,0F0,0B0,0PREPROCESS_BACKWARD0", "s.csv");
  EXPECT_DOUBLE_EQ(simulate(whole, costs).wall_ms, 4 + 1 + 2 + 12);
  const Schedule halves = read_csv(
      "0LOAD_DATA0,0PREPROCESS_FORWARD0,0F0,0B0,0PREPROCESS_BACKWARD_INPUT0,0PREPROCESS_BACKWARD_WEIGHT0", "s.csv");
  SimulateOptions options;
  options.timeline = true;
  options.communication = false;
  const Simulation simulation = simulate(halves, costs, options);
  EXPECT_DOUBLE_EQ(simulation.wall_ms, 4 + 1 + 2 + 12);
  const std::vector<TimelineEvent>& events = simulation.timeline.ranks[0];
  ASSERT_GE(events.size(), 2U);
  const TimelineEvent& weight = events.back();
  const TimelineEvent& input = events[events.size() - 2];
  EXPECT_EQ(input.kind, EventKind::kEncoderBackwardInput);
  EXPECT_DOUBLE_EQ(input.end_ms - input.start_ms, 5);
  EXPECT_EQ(event_label(input, /*with_stage=*/true), "0J0");
  EXPECT_EQ(weight.kind, EventKind::kEncoderBackwardWeight);
  EXPECT_DOUBLE_EQ(weight.end_ms - weight.start_ms, 7);
  EXPECT_EQ(event_label(weight, /*with_stage=*/true), "0V0");
}

TEST(Simulate, ReportsADeadlockInsteadOfHanging) {
  Schedule schedule = two_ranks_one_microbatch();
  schedule.ranks[0].steps.erase(schedule.ranks[0].steps.begin() + 1);  // the send
  try {
    simulate(schedule, uniform_costs(2, {}));
    FAIL() << "no deadlock was reported";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "the schedule deadlocks: rank 0 waits at step 2 (0B0), rank 1 waits at step 1 (1F0), each for a message "
        "that is never sent");
  }
}

TEST(Simulate, RefusesStepsOutsideThePlacementAndCostsThatDoNotFit) {
  Schedule schedule = two_ranks_one_microbatch();
  try {
    simulate(schedule, uniform_costs(3, {}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "costs are given for 3 stages, but the schedule has 2");
  }
  schedule.ranks[1].steps[1] = step(MetaStepType::FORWARD, 1, 5);
  try {
    simulate(schedule, uniform_costs(2, {}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 1, step 1: 1F5 is outside the schedule's 2 stages and 1 microbatches");
  }
  EXPECT_THROW(simulate(two_ranks_one_microbatch(), uniform_costs(2, {.forward_ms = -1})), Error);
}

TEST(Simulate, OverlappedPairsShortenInterleavedAsThePapersSay) {
  Schedule schedule = generated("interleaved_1f1b", 4, 2, 16);
  EXPECT_DOUBLE_EQ(simulate(schedule, uniform_costs(8, {})).wall_ms, 105);
  lower_schedule(schedule, {.overlap_b_f = true});
  CostModel costs = uniform_costs(8, {});
  costs.overlap_factor = 0.8;
  const Simulation overlapped = simulate(schedule, costs);
  EXPECT_NEAR(overlapped.wall_ms, 88.8, 1e-9);
  EXPECT_EQ(overlapped.ranks[0].peak_chunks, 12);
}

}  // namespace
}  // namespace ppctl
