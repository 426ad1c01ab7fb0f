// Looped breadth-first (Lamy-Poirier, arXiv 2211.05953): GPipe over v chunks, each chunk over all microbatches.
//
//   bubble (p − 1)(F + B) of a chunk's cost where m ≥ p; peak mv
#include "schedule/generators/generators.hpp"
#include "schedule/generators/rank_order.hpp"

namespace ppctl::generate {

Schedule looped_bfs(const ScheduleSpec& spec) {
  Schedule schedule = empty_schedule(spec, PlacementKind::kLoop);
  const int v = spec.chunks;
  const int m = spec.num_microbatches;
  for (int r = 0; r < spec.pp; ++r) {
    RankOrder order(schedule.placement, PipelineRank(r), 2 * static_cast<std::size_t>(m) * static_cast<std::size_t>(v));
    // v × (m × F), chunks upwards
    for (int chunk = 0; chunk < v; ++chunk) {
      for (int i = 0; i < m; ++i) order.forward(chunk, i);
    }
    // v × (m × B), chunks downwards
    for (int chunk = v - 1; chunk >= 0; --chunk) {
      for (int i = 0; i < m; ++i) order.backward(chunk, i);
    }
    schedule.ranks.push_back(order.take());
  }
  return schedule;
}

}  // namespace ppctl::generate
