// ZB-H1 and ZB-H2 (Qi et al., Zero Bubble Pipeline Parallelism, arXiv 2401.10241): 1F1B with the weight gradients taken
// out of the backward and put where the bubble was; H2 has twice the warm-up and no bubble left where costs are equal.
// h = 1, 2:
//
//   bubble H1 (p − 1)(F + I − W), H2 (p − 1)(F + I − 2W) of the longest span; W ≤ min(F, I)
//   peak H1 p, H2 2p − 1
#include <algorithm>

#include "schedule/generators/generators.hpp"
#include "schedule/generators/rank_order.hpp"

namespace ppctl::generate {
namespace {

Schedule zb_h(const ScheduleSpec& spec, int h) {
  Schedule schedule = empty_schedule(spec, PlacementKind::kLoop);
  const int p = spec.pp;
  const int m = spec.num_microbatches;
  for (int r = 0; r < p; ++r) {
    RankOrder order(schedule.placement, PipelineRank(r), 3 * static_cast<std::size_t>(m));
    // warm-up: min(h(p − 1 − r), m) × F
    const int warmup = std::min(h * (p - 1 - r), m);
    for (int i = 0; i < warmup; ++i) order.forward(0, i);
    // m steps: F while there are any, I, and W once rank r is h·r steps in (warm-up + i ≥ h(p − 1))
    int weights = 0;
    for (int i = 0; i < m; ++i) {
      if (warmup + i < m) order.forward(0, warmup + i);
      order.input(0, i);
      if (i >= h * r) order.weight(0, weights++);
    }
    // tail: the W that are left
    while (weights < m) order.weight(0, weights++);
    schedule.ranks.push_back(order.take());
  }
  return schedule;
}

}  // namespace

Schedule zb_h1(const ScheduleSpec& spec) { return zb_h(spec, 1); }
Schedule zb_h2(const ScheduleSpec& spec) { return zb_h(spec, 2); }

}  // namespace ppctl::generate
