#include "schedule/schedule.hpp"

#include "base/error.hpp"

namespace ppctl {

void RankSteps::push_composite(MetaStepType type, std::span<const MetaStep> subs, PipelineRank peer) {
  PPCTL_CHECK(!subs.empty() && subs.size() <= 255, "a composite of {} sub-steps", subs.size());
  steps.push_back(
      MetaStep::composite(type, static_cast<std::uint32_t>(sub_steps.size()), static_cast<int>(subs.size()), peer));
  sub_steps.insert(sub_steps.end(), subs.begin(), subs.end());
}

}  // namespace ppctl
