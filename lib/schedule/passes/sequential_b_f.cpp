#include <utility>

#include "schedule/links.hpp"
#include "schedule/passes/passes.hpp"

namespace ppctl {

void apply_sequential_b_f(Schedule& schedule, const PassOptions& /*options*/) {
  for (RankSteps& rank : schedule.ranks) {
    if (rank.sub_steps.empty()) continue;
    std::vector<MetaStep> steps;
    steps.reserve(rank.steps.size() + rank.sub_steps.size());
    for (const MetaStep step : rank.steps) {
      for_each_part(rank, step, [&](MetaStep part) { steps.push_back(part); });
    }
    rank.steps = std::move(steps);
    rank.sub_steps.clear();
  }
}

}  // namespace ppctl
