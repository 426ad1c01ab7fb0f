#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "schedule/links.hpp"
#include "schedule/passes/passes.hpp"
#include "schedule/verify.hpp"

// F1 B1 F2 B2 ... Fn Bn  becomes  F1 [B1 F2] ... [Bn-1 Fn] Bn: every forward directly after a backward joins it. A pair
// starts when the inputs of both are there, which may close a circle of waits that was open before (a warm-up that is
// too shallow for the pairs).

namespace ppctl {
namespace {

bool has_pairs(const Schedule& schedule) {
  return std::ranges::any_of(schedule.ranks, [](const RankSteps& rank) { return !rank.sub_steps.empty(); });
}

void check_whole_backwards(const Schedule& schedule) {
  for (const RankSteps& rank : schedule.ranks) {
    for (const MetaStep step : rank.steps) {
      if (step.type() == MetaStepType::FORWARD || step.type() == MetaStepType::BACKWARD) continue;
      throw_error("overlap_b_f: pairs need whole backwards; schedule {} has them split into dx and dw", schedule.name);
    }
  }
}

void pair_rank(RankSteps& rank) {
  std::vector<MetaStep>& steps = rank.steps;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool is_pair = steps[i].type() == MetaStepType::BACKWARD && i + 1 < steps.size() &&
                         steps[i + 1].type() == MetaStepType::FORWARD;
    if (!is_pair) {
      steps[kept++] = steps[i];
      continue;
    }
    const auto first = static_cast<std::uint32_t>(rank.sub_steps.size());
    rank.sub_steps.push_back(steps[i]);
    rank.sub_steps.push_back(steps[i + 1]);
    steps[kept++] = MetaStep::composite(MetaStepType::OVERLAP_B_F, first, 2);
    ++i;
  }
  steps.resize(kept);
}

}  // namespace

void apply_overlap_b_f(Schedule& schedule, const PassOptions& /*options*/) {
  if (has_pairs(schedule)) return;  // dualpipe and dualpipe_v say themselves what overlaps.
  check_whole_backwards(schedule);
  for (RankSteps& rank : schedule.ranks) pair_rank(rank);
  if (!has_pairs(schedule)) {
    throw_error("overlap_b_f: schedule {} with {} microbatches has no backward directly followed by a forward",
                schedule.name, schedule.num_microbatches);
  }
  const VerifyResult result = verify_schedule(schedule, {.communication = false});
  if (!result.ok()) {
    throw_error("overlap_b_f: schedule {} with {} microbatches cannot run its pairs: {}", schedule.name,
                schedule.num_microbatches, result.faults.front().text());
  }
}

}  // namespace ppctl
