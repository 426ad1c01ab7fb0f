// 1F1B (PipeDream-Flush; Narayanan et al., arXiv 2006.09503): one forward, one backward, so that a rank keeps p − r
// microbatches.
//
//   bubble (p − 1)(F + B), as GPipe; peak min(m, p − r)
#include <algorithm>

#include "schedule/generators/generators.hpp"
#include "schedule/generators/rank_order.hpp"

namespace ppctl::generate {

Schedule one_f_one_b(const ScheduleSpec& spec) {
  Schedule schedule = empty_schedule(spec, PlacementKind::kLoop);
  const int p = spec.pp;
  const int m = spec.num_microbatches;
  for (int r = 0; r < p; ++r) {
    RankOrder order(schedule.placement, PipelineRank(r), 2 * static_cast<std::size_t>(m));
    // warm-up: min(p − 1 − r, m) × F
    const int warmup = std::min(p - 1 - r, m);
    for (int i = 0; i < warmup; ++i) order.forward(0, i);
    // steady: (m − warm-up) × (F, B)
    for (int i = 0; i < m - warmup; ++i) {
      order.forward(0, warmup + i);
      order.backward(0, i);
    }
    // drain: warm-up × B
    for (int i = m - warmup; i < m; ++i) order.backward(0, i);
    schedule.ranks.push_back(order.take());
  }
  return schedule;
}

}  // namespace ppctl::generate
