#pragma once

#include <cstddef>
#include <vector>

#include "schedule/mpipe_options.hpp"
#include "schedule/schedule.hpp"

namespace ppctl {

/// Where the encoder's work of one rank goes: before which of the rank's beats. What has the same beat runs in the
/// order of the list; the number of beats means after all of them.
struct MpipeSlot {
  std::size_t beat = 0;
  int microbatch = 0;
  MetaStepType work = MetaStepType::PREPROCESS_FORWARD;  ///< with loading; or a backward, or a half of one
};
using MpipePlacement = std::vector<std::vector<MpipeSlot>>;  ///< by rank

/// All forwards before the body, all backwards, whole, after it.
MpipePlacement place_before_body(const Schedule& schedule, const MpipeOptions& options);

/// The shortest step that a search over orders finds (shortest_order) in which the beats keep their order on each rank
/// and the encoder's work goes before, between and behind them: into the ranks' own gaps, and where it must be done now
/// for others not to wait. An owner's forwards come in the order in which their features are used, its backwards in the
/// order in which feature gradients are made. REQUIRES: the schedule's compute steps are proved.
MpipePlacement place_just_in_time(const Schedule& schedule, const MpipeOptions& options);

/// No placement around these beats makes a shorter step (least_length).
double least_mpipe_length(const Schedule& schedule, const MpipeOptions& options);

}  // namespace ppctl
