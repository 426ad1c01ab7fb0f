// Interleaved 1F1B, or VPP (Narayanan et al., arXiv 2104.04473): v chunks a rank in a loop, so that the bubble costs
// chunks, not stages.
//
//   rounds R = max(1, ⌊m/p⌋) of k microbatches (see Rounds), or Megatron's groups of g
//   forward op t: chunk ⌊t/k⌋ mod v; backward op t counts chunks down
//   bubble (p − 1)(F + B) of a chunk's cost where m ≥ p; peak min(mv, warm-up + 1)
#include <algorithm>

#include "schedule/generators/generators.hpp"
#include "schedule/generators/rank_order.hpp"
#include "schedule/generators/rounds.hpp"

namespace ppctl::generate {
namespace {

RankSteps interleaved_rank(RankOrder order, const Rounds& rounds, int chunks, int warmup, int num_ops) {
  RoundWalk forward(rounds, chunks, RoundWalk::Direction::kForward);
  RoundWalk backward(rounds, chunks, RoundWalk::Direction::kBackward);
  const auto push_forward = [&] {
    order.forward(forward.chunk(), forward.microbatch());
    forward.advance();
  };
  const auto push_backward = [&] {
    order.backward(backward.chunk(), backward.microbatch());
    backward.advance();
  };
  // warm-up × F
  for (int i = 0; i < warmup; ++i) push_forward();
  // steady: (mv − warm-up) × (F, B)
  for (int i = warmup; i < num_ops; ++i) {
    push_forward();
    push_backward();
  }
  // drain: warm-up × B
  for (int i = 0; i < warmup; ++i) push_backward();
  return order.take();
}

}  // namespace

// p ≤ g ≤ m. A last group of less than p microbatches makes the others wait for it (Megatron refuses it), and where it
// is smaller than 2p − 2 − g, a forward of it would wait for a backward that comes after it.
std::optional<std::string> refuse_interleaved_1f1b(const ScheduleSpec& spec) {
  if (spec.group == 0) return std::nullopt;
  const int p = spec.pp;
  const int m = spec.num_microbatches;
  if (p > m) return fmt::format("group needs at least pp = {} microbatches, not {}", p, m);
  if (spec.group < p || spec.group > m) {
    return fmt::format("group must be pp to microbatches ({} to {}), not {}", p, m, spec.group);
  }
  const int rest = m % spec.group;
  if (rest == 0 || rest >= 2 * p - 2 - spec.group) return std::nullopt;
  return fmt::format("group must leave no or at least {} of the {} microbatches for the last group; {} leaves {}",
                     2 * p - 2 - spec.group, m, spec.group, rest);
}

Schedule interleaved_1f1b(const ScheduleSpec& spec) {
  Schedule schedule = empty_schedule(spec, PlacementKind::kLoop);
  const int p = spec.pp;
  const int v = spec.chunks;
  const int m = spec.num_microbatches;
  const Rounds rounds = spec.group > 0 ? Rounds::groups(m, spec.group) : Rounds::even(m, p);
  const int num_ops = m * v;
  for (int r = 0; r < p; ++r) {
    // warm-up: min(mv, (v − 1)k + 2(p − 1 − r)) forwards; with less_memory (v − 1)k + (p − 1 − r), as deep as 1F1B's: a
    // backward then comes as late as the downstream rank allows, and the next forward waits for it
    const int distance = p - 1 - r;
    const int warmup = std::min(num_ops, (v - 1) * rounds.first_size() + (spec.less_memory ? distance : 2 * distance));
    RankOrder order(schedule.placement, PipelineRank(r), 2 * static_cast<std::size_t>(num_ops));
    schedule.ranks.push_back(interleaved_rank(std::move(order), rounds, v, warmup, num_ops));
  }
  return schedule;
}

}  // namespace ppctl::generate
