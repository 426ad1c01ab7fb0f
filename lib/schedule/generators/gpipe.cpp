// GPipe (Huang et al., arXiv 1811.06965): all forwards, then all backwards.
//
//   bubble (p − 1)(F + B); peak m
#include "schedule/generators/generators.hpp"
#include "schedule/generators/rank_order.hpp"

namespace ppctl::generate {

Schedule gpipe(const ScheduleSpec& spec) {
  Schedule schedule = empty_schedule(spec, PlacementKind::kLoop);
  const int m = spec.num_microbatches;
  for (int r = 0; r < spec.pp; ++r) {
    RankOrder order(schedule.placement, PipelineRank(r), 2 * static_cast<std::size_t>(m));
    // m × F
    for (int i = 0; i < m; ++i) order.forward(0, i);
    // m × B, in the order of the forwards, so that gradients add up as in every other schedule
    for (int i = 0; i < m; ++i) order.backward(0, i);
    schedule.ranks.push_back(order.take());
  }
  return schedule;
}

}  // namespace ppctl::generate
