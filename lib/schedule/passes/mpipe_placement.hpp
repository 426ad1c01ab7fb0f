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
  bool backward = false;
};
using MpipePlacement = std::vector<std::vector<MpipeSlot>>;  ///< by rank

/// All forwards before the body, all backwards after it.
MpipePlacement place_before_body(const Schedule& schedule, const MpipeOptions& options);

/// Fills the ranks' own gaps: a search over list schedules of beats and encoder work, in which the beats keep their
/// order on each rank. Whoever is free takes the ready work with the longest way to the end of the step behind it, so
/// that encoder forwards come when the body is about to wait for them; backwards, for which nobody waits, and forwards
/// ahead of need go where a rank would wait anyway. Of several degrees of eagerness the shortest step is taken.
/// REQUIRES: the schedule's compute steps are proved.
MpipePlacement place_just_in_time(const Schedule& schedule, const MpipeOptions& options);

}  // namespace ppctl
