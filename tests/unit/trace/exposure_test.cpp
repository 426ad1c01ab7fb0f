#include "trace/exposure.hpp"

#include <gtest/gtest.h>

namespace ppctl {
namespace {

TimelineEvent event(EventKind kind, double start, double end, int stage, int microbatch, int lane = 0) {
  TimelineEvent result;
  result.start_ms = start;
  result.end_ms = end;
  result.kind = kind;
  result.lane = static_cast<std::uint8_t>(lane);
  result.stage = StageId(stage);
  result.microbatch = MicrobatchId(microbatch);
  return result;
}

constexpr auto kF = EventKind::kForward;
constexpr auto kB = EventKind::kBackward;

TEST(SteadyState, LastsFromTheFirstBackwardToTheLastForward) {
  const SteadyState steady = steady_state({event(kF, 0, 1, 0, 0), event(kF, 1, 2, 0, 1), event(kB, 3, 5, 0, 0),
                                           event(kF, 5, 6, 0, 2), event(kB, 6, 8, 0, 1), event(kB, 8, 10, 0, 2)});
  EXPECT_EQ(steady.begin_ms, 3);
  EXPECT_EQ(steady.end_ms, 6);
}

TEST(SteadyState, HoldsTheWholeOfItsLastPair) {
  const SteadyState steady = steady_state({event(kF, 0, 1, 0, 0), event(EventKind::kOverlapped, 2, 6, 0, 0),
                                           event(kF, 2, 5, 0, 1, 1), event(kB, 6, 8, 0, 1)});
  EXPECT_EQ(steady.begin_ms, 2);
  EXPECT_EQ(steady.end_ms, 6);
}

TEST(SteadyState, IsEmptyWhereAllForwardsComeFirst) {
  const SteadyState steady = steady_state({event(kF, 0, 1, 0, 0), event(kF, 1, 2, 0, 1), event(kB, 2, 4, 0, 0)});
  EXPECT_EQ(steady.begin_ms, steady.end_ms);
}

TEST(ExchangeExposure, IsTheTimeOfStepsInWhichNothingIsComputed) {
  // A pair of 10 ms in which 9 ms were computed, and a forward of 5 ms of which 2 ms were exchanges.
  const std::vector<TimelineEvent> rank{event(EventKind::kOverlapped, 0, 10, 0, 0), event(kF, 0, 8, 0, 1, 1),
                                        event(kF, 12, 17, 0, 2)};
  const Exposure measured = exchange_exposure(rank, 2.0, std::vector<Interval>{{0, 4}, {4, 9}, {12, 15}});
  EXPECT_EQ(measured.total_ms, 6);
  EXPECT_EQ(measured.exposed_ms, 3);
  EXPECT_EQ(measured.hidden(), 0.5);
  const Exposure simulated = exchange_exposure(rank, 2.0, std::vector<StageCompute>{{3, 6}});
  EXPECT_EQ(simulated.total_ms, 6);
  EXPECT_EQ(simulated.exposed_ms, 3);
}

TEST(P2pExposure, CountsWaitsOnlySinceTheMessageWasSent) {
  // Two ranks; rank 1 has the last stage. Its forward of microbatch 1 waits for rank 0's work until 4.0, then for the
  // message; the gradient of microbatch 0 comes while rank 0 computes.
  Timeline timeline;
  timeline.ranks = {{event(kF, 0, 1, 0, 0), event(EventKind::kSend, 1, 1, 0, 0), event(kF, 2, 4, 0, 1),
                     event(EventKind::kSend, 4, 4, 0, 1), event(kB, 5, 6, 0, 0), event(kF, 6, 7, 0, 2)},
                    {event(EventKind::kWait, 0, 1.5, 1, 0), event(kF, 1.5, 2, 1, 0), event(kB, 2, 3, 1, 0),
                     event(EventKind::kSend, 3, 3, 1, 0), event(EventKind::kWait, 3, 4.5, 1, 1),
                     event(kF, 4.5, 5.5, 1, 1), event(kB, 5.5, 6, 1, 1)}};
  const Exposure exposure = p2p_exposure(Placement(PlacementKind::kLoop, 2, 1), 3, timeline, 0.5);
  // In the steady states: the gradient at rank 0, the activations of microbatch 1 at rank 1.
  EXPECT_EQ(exposure.total_ms, 1.0);
  EXPECT_EQ(exposure.exposed_ms, 0.5);
}

TEST(ExchangeExposure, LeavesOutWaitsForTheInputOfAHalf) {
  // The pair of 10 ms computes for 7 ms; for 2 of the others, beside no compute, its forward waits for its input.
  const std::vector<TimelineEvent> rank{event(EventKind::kOverlapped, 0, 10, 0, 0),
                                        event(EventKind::kWait, 0, 4, 0, 1, 1), event(kF, 4, 8, 0, 1, 1)};
  EXPECT_EQ(exchange_exposure(rank, 2.0, std::vector<Interval>{{1, 3}, {4, 9}}).exposed_ms, 1);
}

TEST(P2pExposure, CountsWaitsOfBothHalvesOfAPairOnceAndNotBesideCompute) {
  // Rank 0 of one stage a rank. Both halves of its pair wait from 5 on, the backward until 6 and the forward, beside
  // the backward's compute, until 8.
  Timeline timeline;
  timeline.ranks = {
      {},
      {event(kF, 0, 1, 1, 0), event(kB, 1, 2, 1, 0), event(EventKind::kWait, 5, 6, 1, 1),
       event(EventKind::kOverlapped, 6, 9, 1, 1), event(EventKind::kWait, 5, 8, 1, 2, 1), event(kF, 8, 9, 1, 2, 1)},
      {}};
  timeline.ranks[0] = {event(EventKind::kSend, 5, 5, 0, 2)};
  timeline.ranks[2] = {event(kB, 3, 4, 2, 1), event(EventKind::kSend, 5, 5, 2, 1)};
  const Placement placement(PlacementKind::kLoop, 3, 1);
  EXPECT_EQ(p2p_exposure(placement, 3, timeline, 2.0).exposed_ms, 3);
  const std::vector<std::vector<Interval>> computed{{}, {{0, 2}, {6.5, 9}}, {}};
  EXPECT_EQ(p2p_exposure(placement, 3, timeline, 2.0, computed).exposed_ms, 1.5);
}

TEST(P2pExposure, KnowsThatStagesOfOneRankSendNothing) {
  Timeline timeline;
  timeline.ranks = {{event(kF, 0, 1, 0, 0), event(kF, 1, 2, 1, 0), event(kB, 2, 3, 1, 0), event(kB, 3, 4, 0, 0),
                     event(kF, 4, 5, 0, 1), event(kF, 5, 6, 1, 1)}};
  EXPECT_EQ(p2p_exposure(Placement(PlacementKind::kLoop, 1, 2), 2, timeline, 0.5).total_ms, 0);
}

}  // namespace
}  // namespace ppctl
