// DualPipeV (DeepSeek; also known as "cut in half"): DualPipe's phases on a V, one copy of the parameters.
//
//   bubble (p − 1)(F&B + B − 3W) on the worst rank, F = I, F&B being a fused pair; peak 2p + 1 chunks
#include "schedule/generators/dualpipe_order.hpp"
#include "schedule/generators/generators.hpp"

namespace ppctl::generate {

std::optional<std::string> refuse_dualpipe_v(const ScheduleSpec& spec) {
  if (spec.num_microbatches >= 2 * spec.pp) return std::nullopt;
  return fmt::format("microbatches must be at least 2 pp = {}, not {}", 2 * spec.pp, spec.num_microbatches);
}

Schedule dualpipe_v(const ScheduleSpec& spec) {
  Schedule schedule = empty_schedule(spec, PlacementKind::kV);
  for (int r = 0; r < spec.pp; ++r) {
    RankOrder order(schedule.placement, PipelineRank(r), 6 * static_cast<std::size_t>(spec.num_microbatches));
    schedule.ranks.push_back(
        dualpipe_order(std::move(order), {.depth = spec.pp, .position = r, .num_microbatches = spec.num_microbatches}));
  }
  return schedule;
}

}  // namespace ppctl::generate
