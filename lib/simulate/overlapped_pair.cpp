#include "simulate/overlapped_pair.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

// An overlapped pair as CommComputeOverlap (lib/overlap) runs it. Exchange i of the forward stands between its pieces
// of compute i and i + 1, exchange i of the backward before its piece i + 1:
//
//   forward   piece 0, meet as COMM, launch 0, meet as COMPUTE, wait for 0, piece 1, meet as COMM, launch 1, ...
//   backward  launch 0, meet as COMPUTE, wait for 0, piece 1, meet as COMM, launch 1, meet as COMPUTE, wait for 1, ...

namespace ppctl {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct SideCosts {
  int exchanges = 0;
  double exchange_ms = 0;  ///< of one
  double first_ms = 0;     ///< compute before the first exchange
  double piece_ms = 0;     ///< compute after each of the others
  double last_ms = 0;      ///< compute after the last exchange
};

class PairSide {
 public:
  PairSide(const SideCosts& costs, double start) : costs_(costs), now_(start + costs.first_ms) {}

  bool is_done() const { return done_ == costs_.exchanges; }
  double now() const { return now_; }
  void launch(double at) {
    now_ = at;
    arrives_ = at + costs_.exchange_ms;
  }
  /// Waits for what was launched last, then computes.
  void compute(double at) {
    ++done_;
    now_ = std::max(at, arrives_) + (is_done() ? costs_.last_ms : costs_.piece_ms);
  }
  /// Goes on with the next launch while the other side is not there any more.
  void end_alone() {
    while (!is_done()) {
      launch(now_);
      compute(now_);
    }
  }

 private:
  SideCosts costs_;
  double now_;
  double arrives_ = 0;
  int done_ = 0;  ///< exchanges
};

SideCosts forward_side(const StageCosts& stage, double factor) {
  const double exchanges = std::round(stage.exchanges);
  const double piece = factor * (stage.forward_ms - stage.forward_exchange_ms) / exchanges;
  return {static_cast<int>(exchanges), factor * stage.forward_exchange_ms / exchanges, piece, piece, 0};
}

SideCosts backward_side(const StageCosts& stage, double factor) {
  const double exchanges = std::round(stage.exchanges);
  const double piece = factor * (stage.dx_ms + stage.dw_ms - stage.backward_exchange_ms) / exchanges;
  return {static_cast<int>(exchanges), factor * stage.backward_exchange_ms / exchanges, 0, piece, piece};
}

PairHalves meet_at_exchanges(const SideCosts& backward, const SideCosts& forward, PairHalves start) {
  PairSide f(forward, start.forward);
  PairSide b(backward, start.backward);
  b.launch(b.now());
  for (int i = 1;; ++i) {
    // The forward launches, the backward computes.
    double meeting = std::max(f.now(), b.now());
    f.launch(meeting);
    b.compute(meeting);
    if (i == forward.exchanges) {  // The forward's last exchange has no second meeting.
      f.compute(meeting);
      break;
    }
    // The backward launches, or has ended, and the forward computes.
    meeting = b.now();
    const bool alone = b.is_done();
    if (!alone) b.launch(meeting);
    f.compute(meeting);
    if (alone) break;
  }
  f.end_alone();
  b.end_alone();
  return {b.now(), f.now()};
}

PairTimes take_turns(PairHalves ms, PairHalves can_start) {
  PairTimes times;
  times.start.backward = can_start.backward;
  times.end.backward = times.idle_from = can_start.backward + ms.backward;
  times.start.forward = std::max(times.end.backward, can_start.forward);
  times.end.forward = times.start.forward + ms.forward;
  return times;
}

}  // namespace

PairTimes time_overlapped_pair(const CostModel& costs, const StageCosts& backward, const StageCosts& forward,
                               double now, PairHalves ready) {
  const double factor = costs.overlap_factor;
  const PairHalves can_start{std::max(now, ready.backward), std::max(now, ready.forward)};
  if (backward.exchanges > 0.5 && forward.exchanges > 0.5) {
    const SideCosts b = backward_side(backward, factor);
    const SideCosts f = forward_side(forward, factor);
    // The backward can only launch before the forward has started; the forward computes its first piece.
    return {.start = can_start,
            .end = meet_at_exchanges(b, f, can_start),
            .idle_from = can_start.forward > can_start.backward ? can_start.backward : can_start.forward + f.first_ms};
  }
  const double backward_ms = backward.dx_ms + backward.dw_ms;
  const bool has_exchanges = backward.backward_exchange_ms > 0 || forward.forward_exchange_ms > 0;
  if (costs.pairs_in_turns && !has_exchanges) {
    return take_turns({factor * backward_ms, factor * forward.forward_ms}, can_start);
  }
  const double hidden = std::min(forward.forward_exchange_ms, backward_ms - backward.backward_exchange_ms) +
                        std::min(backward.backward_exchange_ms, forward.forward_ms - forward.forward_exchange_ms);
  const double start = std::max(can_start.backward, can_start.forward);
  const double end = start + factor * (backward_ms + forward.forward_ms - hidden);
  return {.start = {start, start}, .end = {end, end}, .idle_from = kNever};
}

double overlapped_pair_ms(const CostModel& costs, const StageCosts& backward, const StageCosts& forward) {
  const PairTimes times = time_overlapped_pair(costs, backward, forward, 0, {});
  return std::max(times.end.backward, times.end.forward);
}

}  // namespace ppctl
