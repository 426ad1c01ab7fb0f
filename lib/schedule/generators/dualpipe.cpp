// DualPipe (DeepSeek-V3, arXiv 2412.19437): the microbatches enter at both ends. Each rank holds two stages, so the
// parameters exist twice; the counts are DualPipeV's with p/2 for p, min(r, p − 1 − r) for r and m/2 for m.
//
//   bubble (p/2 − 1)(F&B + B − 3W); peak p + 1 chunks
#include <algorithm>

#include "schedule/generators/dualpipe_order.hpp"
#include "schedule/generators/generators.hpp"

namespace ppctl::generate {

std::optional<std::string> refuse_dualpipe(const ScheduleSpec& spec) {
  if (spec.pp % 2 != 0) return fmt::format("pp must be even, not {}", spec.pp);
  if (spec.num_microbatches % 2 == 0 && spec.num_microbatches >= 2 * spec.pp) return std::nullopt;
  return fmt::format("microbatches must be even and at least 2 pp = {}, not {}", 2 * spec.pp, spec.num_microbatches);
}

Schedule dualpipe(const ScheduleSpec& spec) {
  Schedule schedule = empty_schedule(spec, PlacementKind::kBidirectional);
  const int p = spec.pp;
  const int half = spec.num_microbatches / 2;
  for (int r = 0; r < p; ++r) {
    DualPipeRank rank{.depth = p / 2, .position = std::min(r, p - 1 - r), .num_microbatches = half};
    // The ranks of the second half see the two flows the other way round.
    const bool mirrored = r >= p / 2;
    for (int flow = 0; flow < 2; ++flow) {
      rank.chunk[flow] = mirrored ? 1 - flow : flow;
      rank.first[flow] = rank.chunk[flow] * half;
    }
    RankOrder order(schedule.placement, PipelineRank(r), 3 * static_cast<std::size_t>(spec.num_microbatches));
    schedule.ranks.push_back(dualpipe_order(std::move(order), rank));
  }
  return schedule;
}

}  // namespace ppctl::generate
