#include "runtime/step_result.hpp"

#include <algorithm>

namespace ppctl {

void StepResult::reset(std::size_t num_microbatches) {
  losses.clear();
  outputs.assign(num_microbatches, {});
  times.assign(num_microbatches, {});
  spans.clear();
  start = end = busy = 0;
  peak_chunks = 0;
}

std::vector<TimelineEvent> StepResult::events(Nanoseconds origin) const {
  constexpr double kMillisecond = 1e6;
  std::vector<TimelineEvent> events;
  events.reserve(spans.size());
  for (const RecordedSpan& span : spans) {
    TimelineEvent event;
    event.start_ms = static_cast<double>(span.start - origin) / kMillisecond;
    event.end_ms = static_cast<double>(span.end - origin) / kMillisecond;
    event.kind = span.kind;
    event.lane = span.lane;
    event.stage = span.stage;
    event.microbatch = span.microbatch;
    event.peer = span.peer;
    events.push_back(event);
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const TimelineEvent& a, const TimelineEvent& b) { return a.start_ms < b.start_ms; });
  return events;
}

}  // namespace ppctl
