#include "simulate/overlapped_pair.hpp"

#include <gtest/gtest.h>

#include "arch/family.hpp"
#include "simulate/model_costs.hpp"

namespace ppctl {
namespace {

/// `compute_ms` in all, and `exchanges` of `exchange_ms` each.
StageCosts forward(double compute_ms, int exchanges, double exchange_ms) {
  StageCosts stage;
  stage.forward_exchange_ms = exchanges * exchange_ms;
  stage.forward_ms = compute_ms + stage.forward_exchange_ms;
  stage.exchanges = exchanges;
  return stage;
}

StageCosts backward(double compute_ms, int exchanges, double exchange_ms) {
  StageCosts stage;
  stage.backward_exchange_ms = exchanges * exchange_ms;
  stage.dx_ms = compute_ms + stage.backward_exchange_ms;
  stage.dw_ms = 0;
  stage.exchanges = exchanges;
  return stage;
}

TEST(OverlappedPair, HidesExchangesThatAreShorterThanThePiecesOfCompute) {
  for (const double exchange_ms : {0.0, 1.0, 2.0}) {
    EXPECT_DOUBLE_EQ(overlapped_pair_ms({}, backward(16, 4, exchange_ms), forward(8, 4, exchange_ms)), 24);
  }
}

TEST(OverlappedPair, ShowsWhatAPieceOfTheOtherSideDoesNotCover) {
  // Pieces of 2 and 4 ms. Each exchange of the backward lies beside a piece of the forward, 1 ms shorter: the backward
  // computes at 3-7, 10-14, 17-21 and 24-28, and the forward in between.
  EXPECT_DOUBLE_EQ(overlapped_pair_ms({}, backward(16, 4, 3), forward(8, 4, 3)), 28);
}

TEST(OverlappedPair, LeavesTheSideWithMoreExchangesAlone) {
  // The forward computes at 0-2 and the backward at 2-10, beside the forward's first exchange; 10-12; 12-20 beside the
  // second; then the forward goes on: 20-22, its exchange until 23, and its last piece and exchange until 26.
  EXPECT_DOUBLE_EQ(overlapped_pair_ms({}, backward(16, 2, 1), forward(8, 4, 1)), 22 + 1 + 2 + 1);
  // The forward ends at 13; the backward is alone from 16 on and shows its last two exchanges.
  EXPECT_DOUBLE_EQ(overlapped_pair_ms({}, backward(16, 4, 1), forward(8, 2, 1)), 4 + 4 + 4 + 4 + 1 + 4 + 1 + 4);
}

TEST(OverlappedPair, WithoutNumbersOfExchangesHidesAllThatTheOtherSidesComputeCanHide) {
  StageCosts b = backward(16, 4, 3);
  StageCosts f = forward(8, 4, 3);
  b.exchanges = f.exchanges = 0;
  EXPECT_DOUBLE_EQ(overlapped_pair_ms({}, b, f), 16 + 8 + (12 - 8));
  b.exchanges = 4;  // of one side alone
  EXPECT_DOUBLE_EQ(overlapped_pair_ms({}, b, f), 16 + 8 + (12 - 8));
}

TEST(OverlappedPair, StartsEachHalfWhenItsOwnInputIsThere) {
  const StageCosts b = backward(16, 4, 1);
  const StageCosts f = forward(8, 4, 1);
  // The forward's first piece lies beside the wait for the backward's gradient and the launch of its first exchange.
  PairTimes times = time_overlapped_pair({}, b, f, 10, {11, 5});
  EXPECT_EQ(times.start.forward, 10);
  EXPECT_EQ(times.start.backward, 11);
  EXPECT_EQ(times.end.backward, 34) << "as if both had been there at 10";
  // From 12 on there is nothing to do before the gradient comes; its first exchange is then shown.
  times = time_overlapped_pair({}, b, f, 10, {15, 5});
  EXPECT_FALSE(times.forward_starts_last());
  EXPECT_EQ(times.idle_from, 12);
  EXPECT_EQ(times.end.backward, 34 + 3 + 1);
  // Without the forward, the backward gets no further than its first meeting.
  times = time_overlapped_pair({}, b, f, 10, {5, 13});
  EXPECT_TRUE(times.forward_starts_last());
  EXPECT_EQ(times.idle_from, 10);
  EXPECT_EQ(times.end.backward, 34 + 3);
}

TEST(OverlappedPair, EndsItsForwardFirst) {
  // Compute in turns until 22 and 20; the backward has one exchange less before its last piece of 4 ms.
  const PairTimes times = time_overlapped_pair({}, backward(16, 4, 1), forward(8, 4, 1), 0, {});
  EXPECT_EQ(times.end.backward, 24);
  EXPECT_EQ(times.end.forward, 21);
}

TEST(OverlappedPair, WithoutExchangesRunsTheBackwardAndThenTheForwardInTurns) {
  CostModel costs;
  costs.pairs_in_turns = true;
  const StageCosts b = backward(4, 0, 0);
  const StageCosts f = forward(2, 0, 0);
  PairTimes times = time_overlapped_pair(costs, b, f, 10, {});
  EXPECT_EQ(times.end.backward, 14);
  EXPECT_EQ(times.end.forward, 16);
  times = time_overlapped_pair(costs, b, f, 10, {11, 18});
  EXPECT_EQ(times.end.backward, 15);
  EXPECT_EQ(times.idle_from, 15);
  EXPECT_EQ(times.end.forward, 20);
}

TEST(OverlappedPair, HasTheExchangesOfLayersWithExpertsOverTheLinkOfThePlan) {
  MemoryModel model;
  model.spec = parse_model_keys("mixtral", {{"vocab_size", "32"},
                                            {"hidden_size", "32"},
                                            {"intermediate_size", "24"},
                                            {"num_hidden_layers", "3"},
                                            {"num_attention_heads", "2"},
                                            {"num_local_experts", "4"},
                                            {"num_experts_per_tok", "2"}});
  model.layer_counts = {2, 1};
  model.shape = {.samples = 5, .sequence = 25, .element_bytes = 4};
  CostModel costs = uniform_costs(2, {.forward_ms = 10, .dx_ms = 10, .dw_ms = 5});
  costs.link = {.latency_ms = 0.5, .bandwidth_gbps = 0.128};
  add_exchanges(model, costs);
  EXPECT_EQ(costs.stages[0].exchanges, 0) << "all experts are on every rank";
  model.experts.count = 2;
  add_exchanges(model, costs);
  // Half of 125 tokens' 2 rows of 128 bytes: 16,000 bytes, which take 1 ms.
  EXPECT_EQ(costs.stages[0].exchanges, 4);
  EXPECT_EQ(costs.stages[1].exchanges, 2);
  EXPECT_DOUBLE_EQ(costs.stages[0].forward_ms, 10 + 4 * 1.5);
  EXPECT_DOUBLE_EQ(costs.stages[1].dx_ms, 10 + 2 * 1.5);
  EXPECT_DOUBLE_EQ(costs.stages[1].backward_exchange_ms, 3);
}

}  // namespace
}  // namespace ppctl
