#include <gtest/gtest.h>

#include "simulate/cost_model.hpp"

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

}  // namespace
}  // namespace ppctl
