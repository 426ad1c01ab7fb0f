#include <algorithm>
#include <cmath>

#include "simulate/cost_model.hpp"

// An overlapped pair as CommComputeOverlap (lib/overlap) runs it. Exchange i of the forward stands between its pieces
// of compute i and i + 1, exchange i of the backward before its piece i + 1:
//
//   forward   piece 0, meet as COMM, launch 0, meet as COMPUTE, wait for 0, piece 1, meet as COMM, launch 1, ...
//   backward  launch 0, meet as COMPUTE, wait for 0, piece 1, meet as COMM, launch 1, meet as COMPUTE, wait for 1, ...

namespace ppctl {
namespace {

struct PairTimes {
  int exchanges = 0;
  double exchange_ms = 0;  ///< of one
  double first_ms = 0;     ///< compute before the first exchange
  double piece_ms = 0;     ///< compute after each of the others
  double last_ms = 0;      ///< compute after the last exchange
};

class PairSide {
 public:
  explicit PairSide(const PairTimes& times) : times_(times), now_(times.first_ms) {}

  bool is_done() const { return done_ == times_.exchanges; }
  double now() const { return now_; }
  void launch(double at) {
    now_ = at;
    arrives_ = at + times_.exchange_ms;
  }
  /// Waits for what was launched last, then computes.
  void compute(double at) {
    ++done_;
    now_ = std::max(at, arrives_) + (is_done() ? times_.last_ms : times_.piece_ms);
  }
  /// Goes on with the next launch while the other side is not there any more.
  double end_alone() {
    while (!is_done()) {
      launch(now_);
      compute(now_);
    }
    return now_;
  }

 private:
  PairTimes times_;
  double now_;
  double arrives_ = 0;
  int done_ = 0;  ///< exchanges
};

PairTimes forward_times(const StageCosts& stage) {
  const double exchanges = std::round(stage.exchanges);
  const double piece = (stage.forward_ms - stage.forward_exchange_ms) / exchanges;
  return {static_cast<int>(exchanges), stage.forward_exchange_ms / exchanges, piece, piece, 0};
}

PairTimes backward_times(const StageCosts& stage) {
  const double exchanges = std::round(stage.exchanges);
  const double piece = (stage.dx_ms + stage.dw_ms - stage.backward_exchange_ms) / exchanges;
  return {static_cast<int>(exchanges), stage.backward_exchange_ms / exchanges, 0, piece, piece};
}

double timed_pair_ms(const StageCosts& backward, const StageCosts& forward) {
  const PairTimes times = forward_times(forward);
  PairSide f(times);
  PairSide b(backward_times(backward));
  b.launch(0);
  for (int i = 1;; ++i) {
    // The forward launches, the backward computes.
    double meeting = std::max(f.now(), b.now());
    f.launch(meeting);
    b.compute(meeting);
    if (i == times.exchanges) {  // The forward's last exchange has no second meeting.
      f.compute(meeting);
      return std::max(f.now(), b.end_alone());
    }
    // The backward launches, or has ended, and the forward computes.
    meeting = b.now();
    const bool alone = b.is_done();
    if (!alone) b.launch(meeting);
    f.compute(meeting);
    if (alone) return f.end_alone();
  }
}

}  // namespace

double overlapped_pair_ms(const CostModel& costs, const StageCosts& backward, const StageCosts& forward) {
  if (backward.exchanges > 0.5 && forward.exchanges > 0.5)
    return costs.overlap_factor * timed_pair_ms(backward, forward);
  const double backward_ms = backward.dx_ms + backward.dw_ms;
  const double hidden = std::min(forward.forward_exchange_ms, backward_ms - backward.backward_exchange_ms) +
                        std::min(backward.backward_exchange_ms, forward.forward_ms - forward.forward_exchange_ms);
  return costs.overlap_factor * (backward_ms + forward.forward_ms - hidden);
}

}  // namespace ppctl
