#pragma once

#include <vector>

#include "trace/timeline.hpp"

namespace ppctl {

/// Forward, backward, dx, dw, an overlapped pair or encoder work: what a rank is there for.
bool is_work(EventKind kind);

/// What a timeline says of one rank.
struct RankStats {
  double first_ms = 0;  ///< start of its first work
  double last_ms = 0;   ///< end of its last work
  double busy_ms = 0;   ///< its work on lane 0
  int num_events = 0;   ///< of work

  double span_ms() const { return last_ms - first_ms; }
};

/// What a timeline says of a step, measured or simulated alike.
struct TimelineStats {
  double wall_ms = 0;   ///< end of the last event
  double span_ms = 0;   ///< the longest rank's own first work to own last work
  double ideal_ms = 0;  ///< work of the busiest rank
  std::vector<RankStats> ranks;

  double bubble_wall() const { return wall_ms > 0 ? (wall_ms - ideal_ms) / wall_ms : 0; }
  double bubble_span() const { return span_ms > 0 ? (span_ms - ideal_ms) / span_ms : 0; }
  /// The share of the wall time in which a rank does not work.
  double idle_share(std::size_t rank) const { return wall_ms > 0 ? 1 - ranks[rank].busy_ms / wall_ms : 0; }
};

TimelineStats timeline_stats(const Timeline& timeline);

}  // namespace ppctl
