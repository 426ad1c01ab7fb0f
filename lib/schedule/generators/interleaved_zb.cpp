// Interleaved ZB-H1: the interleaved order with I in place of B and each rank's W r steps behind its I.
//
//   bubble (p − 1)(F + I − W) of a chunk's cost; peak vp
#include <algorithm>

#include "schedule/generators/generators.hpp"
#include "schedule/generators/rank_order.hpp"
#include "schedule/generators/rounds.hpp"

namespace ppctl::generate {

Schedule interleaved_zb(const ScheduleSpec& spec) {
  Schedule schedule = empty_schedule(spec, PlacementKind::kLoop);
  const int p = spec.pp;
  const int v = spec.chunks;
  const Rounds rounds = Rounds::even(spec.num_microbatches, p);
  const int num_ops = spec.num_microbatches * v;
  for (int r = 0; r < p; ++r) {
    RankOrder order(schedule.placement, PipelineRank(r), 3 * static_cast<std::size_t>(num_ops));
    RoundWalk forward(rounds, v, RoundWalk::Direction::kForward);
    RoundWalk input(rounds, v, RoundWalk::Direction::kBackward);
    RoundWalk weight(rounds, v, RoundWalk::Direction::kBackward);
    const auto push = [&order](MetaStepType type, RoundWalk& walk) {
      order.push(type, walk.chunk(), walk.microbatch());
      walk.advance();
    };
    // warm-up: min(mv, (v − 1)k + (p − 1 − r)) × F
    const int warmup = std::min(num_ops, (v - 1) * rounds.first_size() + (p - 1 - r));
    for (int i = 0; i < warmup; ++i) push(MetaStepType::FORWARD, forward);
    // mv steps: F while there are any, I, and W from step r on
    for (int i = 0; i < num_ops; ++i) {
      if (warmup + i < num_ops) push(MetaStepType::FORWARD, forward);
      push(MetaStepType::BACKWARD_INPUT, input);
      if (i >= r) push(MetaStepType::BACKWARD_WEIGHT, weight);
    }
    // tail: the W that are left
    for (int i = 0; i < std::min(r, num_ops); ++i) push(MetaStepType::BACKWARD_WEIGHT, weight);
    schedule.ranks.push_back(order.take());
  }
  return schedule;
}

}  // namespace ppctl::generate
