#include "trace/timeline_stats.hpp"

#include <algorithm>

namespace ppctl {

bool is_work(EventKind kind) {
  switch (kind) {
    case EventKind::kForward:
    case EventKind::kBackward:
    case EventKind::kBackwardInput:
    case EventKind::kBackwardWeight:
    case EventKind::kOverlapped:
    case EventKind::kEncoderForward:
    case EventKind::kEncoderBackward:
    case EventKind::kEncoderBackwardInput:
    case EventKind::kEncoderBackwardWeight:
      return true;
    default:
      return false;
  }
}

TimelineStats timeline_stats(const Timeline& timeline) {
  TimelineStats stats;
  for (const auto& events : timeline.ranks) {
    RankStats rank;
    for (const TimelineEvent& event : events) {
      stats.wall_ms = std::max(stats.wall_ms, event.end_ms);
      if (!is_work(event.kind) || event.lane > 1) continue;
      if (rank.num_events++ == 0) rank.first_ms = event.start_ms;
      rank.last_ms = std::max(rank.last_ms, event.end_ms);
      if (event.lane == 0) rank.busy_ms += event.end_ms - event.start_ms;
    }
    stats.span_ms = std::max(stats.span_ms, rank.span_ms());
    stats.ideal_ms = std::max(stats.ideal_ms, rank.busy_ms);
    stats.ranks.push_back(rank);
  }
  return stats;
}

}  // namespace ppctl
