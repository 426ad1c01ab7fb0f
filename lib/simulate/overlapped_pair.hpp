#pragma once

#include "simulate/cost_model.hpp"

namespace ppctl {

/// A number for each half of an overlapped pair.
struct PairHalves {
  double backward = 0;
  double forward = 0;
};

/// When the halves of a pair run, in milliseconds.
struct PairTimes {
  PairHalves start;  ///< their inputs are here, and the rank turns to them
  PairHalves end;    ///< their outputs leave
  /// From when on the rank has nothing to do but to wait for the inputs of the half that starts last, if that is before
  /// its start. Before the half that starts first it waits for that one's.
  double idle_from = 0;

  bool forward_starts_last() const { return start.forward > start.backward; }
};

/// A pair that its rank comes to at `now`, and the inputs of whose halves are there at `ready`, which may be before.
///
/// Where the numbers of exchanges are known, each half starts when it can, and they take turns at each exchange as
/// CommComputeOverlap has them do, with compute divided evenly between exchanges. Without exchanges, pairs_in_turns has
/// them run one after the other, first the backward. Else both end when the pair does, which takes B + F − hidden from
/// when both can start: each half hides its exchange beside the other's compute. All durations are times
/// overlap_factor.
PairTimes time_overlapped_pair(const CostModel& costs, const StageCosts& backward, const StageCosts& forward,
                               double now, PairHalves ready);

/// Milliseconds of a pair that has all inputs.
double overlapped_pair_ms(const CostModel& costs, const StageCosts& backward, const StageCosts& forward);

}  // namespace ppctl
