#include "schedule/generators/v_pattern.hpp"

#include <algorithm>
#include <array>
#include <deque>

#include "base/error.hpp"
#include "schedule/generators/rank_order.hpp"
#include "schedule/generators/v_squeeze.hpp"

namespace ppctl {
namespace {

constexpr int kPeriod = 6;

/// The slots of microbatch 0 on one rank: F0, F1, I1, I0.
std::array<int, 4> first_slots(const VPattern& pattern, int p, int r) {
  const int up = p - 1 - r;  // ranks between this one and the last
  const int f1_last = pattern.forward_offset[0] * (p - 1) + 1 + pattern.turn_forward;
  const int i1_first = f1_last + pattern.forward_offset[1] * (p - 1) + 1 + pattern.turn_loss;
  const int i0_last = i1_first + pattern.backward_offset[0] * (p - 1) + 1 + pattern.turn_backward;
  return {pattern.forward_offset[0] * r, f1_last + pattern.forward_offset[1] * up,
          i1_first + pattern.backward_offset[0] * r, i0_last + pattern.backward_offset[1] * up};
}

/// The pattern repeated m times on one rank, W in the gaps as soon as there is one.
std::vector<VStep> repeat(const std::array<int, 4>& slots, int m) {
  constexpr MetaStepType kTypes[4] = {MetaStepType::FORWARD, MetaStepType::FORWARD, MetaStepType::BACKWARD_INPUT,
                                      MetaStepType::BACKWARD_INPUT};
  constexpr int kChunks[4] = {0, 1, 1, 0};
  int by_phase[kPeriod];
  std::fill_n(by_phase, kPeriod, -1);
  for (int k = 0; k < 4; ++k) {
    int& phase = by_phase[slots[k] % kPeriod];
    PPCTL_CHECK(phase == -1, "two steps of a V pattern share slot {}", slots[k] % kPeriod);
    phase = k;
  }
  std::vector<VStep> steps;
  steps.reserve(kPeriod * static_cast<std::size_t>(m));
  std::deque<VStep> weights;
  const auto take_weight = [&] {
    steps.push_back(weights.front());
    weights.pop_front();
  };
  const int last_slot = slots[3] + kPeriod * (m - 1);
  for (int slot = 0; slot <= last_slot; ++slot) {
    const int k = by_phase[slot % kPeriod];
    const int microbatch = k < 0 ? -1 : (slot - slots[static_cast<std::size_t>(k)]) / kPeriod;
    if (k >= 0 && slot >= slots[static_cast<std::size_t>(k)] && microbatch < m) {
      steps.push_back({kTypes[k], kChunks[k], microbatch});
      if (kTypes[k] == MetaStepType::BACKWARD_INPUT) {
        weights.push_back({MetaStepType::BACKWARD_WEIGHT, kChunks[k], microbatch});
      }
    } else if (!weights.empty()) {
      take_weight();
    }
  }
  while (!weights.empty()) take_weight();
  return steps;
}

}  // namespace

Schedule v_pattern_schedule(const ScheduleSpec& spec, const VPattern& pattern) {
  Schedule schedule = empty_schedule(spec, PlacementKind::kV);
  VOrders orders;
  for (int r = 0; r < spec.pp; ++r) orders.push_back(repeat(first_slots(pattern, spec.pp, r), spec.num_microbatches));
  squeeze(orders, spec.num_microbatches, pattern.peak_chunks);
  for (int r = 0; r < spec.pp; ++r) {
    const std::vector<VStep>& steps = orders[static_cast<std::size_t>(r)];
    RankOrder order(schedule.placement, PipelineRank(r), steps.size());
    for (const VStep& step : steps) order.push(step.type, step.chunk, step.microbatch);
    schedule.ranks.push_back(order.take());
  }
  return schedule;
}

}  // namespace ppctl
