#pragma once

#include <optional>
#include <string>

#include "schedule/verify.hpp"

namespace ppctl {

/// The first step that the schedule's shape does not allow: a stage or microbatch out of range, a stage that its rank
/// does not hold, a peer that is not the other end, a composite with the wrong sub-steps; or a schedule whose parts do
/// not fit together at all. Whoever found none may index dense tables by stage and microbatch without looking.
std::optional<ScheduleFault> find_misplaced_step(const Schedule& schedule);

/// The text of any step, its kind alone if it is a composite whose sub-steps are not there.
std::string safe_step_text(const RankSteps& rank, MetaStep step);

}  // namespace ppctl
