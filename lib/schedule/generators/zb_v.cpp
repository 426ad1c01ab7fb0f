// ZB-V (Qi et al., arXiv 2401.10241, section 6): two chunks in a V, so that the first and the last stage share rank 0
// and neither end waits. n = max(2p − 1, m); what exceeds m is left out.
//
//   bubble: no rank idles between its first and its last step where F = I = W and m ≥ 2p − 1; (p − 1)(2 max(F, I) − 2W)
//   otherwise peak 2p chunks, that is p microbatches
#include <algorithm>

#include "schedule/generators/generators.hpp"
#include "schedule/generators/rank_order.hpp"

namespace ppctl::generate {
namespace {

/// Counts the microbatches of each chunk and kind up; leaves those out that do not exist.
class ZbvOrder {
 public:
  ZbvOrder(RankOrder order, int num_microbatches) : order_(std::move(order)), num_microbatches_(num_microbatches) {}

  void f(int chunk) { push(MetaStepType::FORWARD, chunk, f_[chunk]++); }
  void i(int chunk) { push(MetaStepType::BACKWARD_INPUT, chunk, i_[chunk]++); }
  void w(int chunk) { push(MetaStepType::BACKWARD_WEIGHT, chunk, w_[chunk]++); }
  int forwards(int chunk) const { return f_[chunk]; }
  /// The W of every I that has none yet.
  void rest(int chunk) {
    while (w_[chunk] < i_[chunk]) w(chunk);
  }
  RankSteps take() { return order_.take(); }

 private:
  void push(MetaStepType type, int chunk, int microbatch) {
    if (microbatch < num_microbatches_) order_.push(type, chunk, microbatch);
  }

  RankOrder order_;
  int num_microbatches_;
  int f_[2] = {0, 0};
  int i_[2] = {0, 0};
  int w_[2] = {0, 0};
};

RankSteps zb_v_rank(ZbvOrder order, int p, int r, int n) {
  // (2(p − r) − 1) × F0
  for (int k = 0; k < 2 * (p - r) - 1; ++k) order.f(0);
  // r × (F1, F0)
  for (int k = 0; k < r; ++k) order.f(1), order.f(0);
  // (p − r) × (F1, I1, W1)
  for (int k = 0; k < p - r; ++k) order.f(1), order.i(1), order.w(1);
  // steady: (F0, I0, W0, F1, I1, W1) until n forwards of both are done
  while (order.forwards(1) < n) {
    if (order.forwards(0) < n) order.f(0);
    order.i(0), order.w(0);
    order.f(1), order.i(1), order.w(1);
  }
  // r × (I0, I1)
  for (int k = 0; k < r; ++k) order.i(0), order.i(1);
  // (p − r) × (I0, W0)
  for (int k = 0; k < p - r; ++k) order.i(0), order.w(0);
  // the rest of W1, then of W0
  order.rest(1);
  order.rest(0);
  return order.take();
}

}  // namespace

Schedule zb_v(const ScheduleSpec& spec) {
  Schedule schedule = empty_schedule(spec, PlacementKind::kV);
  const int m = spec.num_microbatches;
  const int n = std::max(2 * spec.pp - 1, m);
  for (int r = 0; r < spec.pp; ++r) {
    RankOrder order(schedule.placement, PipelineRank(r), 6 * static_cast<std::size_t>(m));
    schedule.ranks.push_back(zb_v_rank(ZbvOrder(std::move(order), m), spec.pp, r, n));
  }
  return schedule;
}

}  // namespace ppctl::generate
