#include "trace/exposure.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "trace/timeline_stats.hpp"

namespace ppctl {
namespace {

bool is_forward(const TimelineEvent& event) { return event.kind == EventKind::kForward; }
bool is_backward(const TimelineEvent& event) { return is_work(event.kind) && !is_forward(event); }

using StageAndMicrobatch = std::pair<int, int>;
StageAndMicrobatch key_of(const TimelineEvent& event) { return {event.stage.value, event.microbatch.value}; }

/// When the forwards and backwards of one rank began, by stage and microbatch.
struct Starts {
  explicit Starts(const std::vector<TimelineEvent>& rank) {
    for (const TimelineEvent& event : rank) {
      if (is_work(event.kind)) (is_forward(event) ? forward : backward)[key_of(event)] = event.start_ms;
    }
  }
  std::map<StageAndMicrobatch, double> forward;
  std::map<StageAndMicrobatch, double> backward;
};

/// [is gradient, stage of the sender, microbatch]
using MessageKey = std::tuple<bool, int, int>;

/// When each message was sent.
std::map<MessageKey, double> find_sends(const Timeline& timeline) {
  std::map<MessageKey, double> sends;
  for (const auto& rank : timeline.ranks) {
    const Starts starts(rank);
    for (const TimelineEvent& event : rank) {
      if (event.kind != EventKind::kSend) continue;
      // Activations leave a stage before the backward of the same microbatch comes to it.
      const auto backward = starts.backward.find(key_of(event));
      const bool gradient = backward != starts.backward.end() && event.start_ms > backward->second;
      sends[{gradient, event.stage.value, event.microbatch.value}] = event.start_ms;
    }
  }
  return sends;
}

/// Whether the tensor that a step consumes comes from another rank.
bool has_remote_input(const Placement& placement, int num_microbatches, const TimelineEvent& work) {
  const int stage = work.stage.value;
  const int sender = is_forward(work) ? stage - 1 : stage + 1;
  if (sender < 0 || sender >= placement.num_stages()) return false;
  const auto rank_of = [&](int s) { return placement.rank_of(StageId(s), work.microbatch, num_microbatches); };
  return rank_of(stage) != rank_of(sender);
}

/// The same stretches of time, in order and without overlaps.
std::vector<Interval> merged(std::vector<Interval> intervals) {
  std::ranges::sort(intervals, {}, &Interval::start_ms);
  std::vector<Interval> result;
  for (const Interval& interval : intervals) {
    if (result.empty() || interval.start_ms > result.back().end_ms) {
      result.push_back(interval);
    } else {
      result.back().end_ms = std::max(result.back().end_ms, interval.end_ms);
    }
  }
  return result;
}

/// What is left of an interval outside of `intervals`, which are in order and do not overlap.
double length_outside(Interval of, std::span<const Interval> intervals) {
  if (of.end_ms <= of.start_ms) return 0;
  double length = of.end_ms - of.start_ms;
  const auto first = std::ranges::lower_bound(intervals, of.start_ms, {}, &Interval::end_ms);
  for (auto it = first; it != intervals.end() && it->start_ms < of.end_ms; ++it) {
    length -= std::max(0.0, std::min(it->end_ms, of.end_ms) - std::max(it->start_ms, of.start_ms));
  }
  return length;
}

/// The steps of a rank's steady state.
std::vector<TimelineEvent> steady_work(const std::vector<TimelineEvent>& rank) {
  const SteadyState steady = steady_state(rank);
  std::vector<TimelineEvent> work;
  for (const TimelineEvent& event : rank) {
    if (is_work(event.kind) && steady.contains(event)) work.push_back(event);
  }
  return work;
}

/// Time of the steps of a rank, without that in which it did nothing but wait for the inputs of half of a pair.
double time_of(const std::vector<TimelineEvent>& work, const std::vector<TimelineEvent>& rank,
               std::span<const Interval> computed) {
  std::vector<Interval> intervals;
  for (const TimelineEvent& event : work) intervals.push_back({event.start_ms, event.end_ms});
  double time = 0;
  for (const Interval& interval : merged(std::move(intervals))) {
    time += interval.end_ms - interval.start_ms;
    for (const TimelineEvent& event : rank) {
      if (event.kind != EventKind::kWait) continue;
      time -= length_outside({std::max(event.start_ms, interval.start_ms), std::min(event.end_ms, interval.end_ms)},
                             computed);
    }
  }
  return time;
}

}  // namespace

SteadyState steady_state(const std::vector<TimelineEvent>& rank) {
  std::optional<double> begin;
  Interval last{-1, -1};
  for (const TimelineEvent& event : rank) {
    if (is_backward(event)) begin = std::min(begin.value_or(event.start_ms), event.start_ms);
    if (is_forward(event) && event.end_ms > last.end_ms) last = {event.start_ms, event.end_ms};
  }
  if (!begin || last.end_ms <= *begin) return {};
  double end = last.end_ms;
  for (const TimelineEvent& event : rank) {
    const bool beside = event.start_ms < last.end_ms && event.end_ms > last.start_ms;
    if (is_backward(event) && beside) end = std::max(end, event.end_ms);
  }
  return {*begin, end};
}

Exposure p2p_exposure(const Placement& placement, int num_microbatches, const Timeline& timeline, double message_ms,
                      std::span<const std::vector<Interval>> computed) {
  const std::map<MessageKey, double> sends = find_sends(timeline);
  Exposure exposure;
  for (std::size_t r = 0; r < timeline.ranks.size(); ++r) {
    const auto& rank = timeline.ranks[r];
    const std::span<const Interval> computes = computed.empty() ? std::span<const Interval>() : computed[r];
    const SteadyState steady = steady_state(rank);
    const Starts starts(rank);
    std::vector<Interval> waits;
    for (const TimelineEvent& event : rank) {
      if (event.start_ms < steady.begin_ms || event.end_ms > steady.end_ms) continue;
      const int stage = event.stage.value;
      if (is_work(event.kind)) {
        if (has_remote_input(placement, num_microbatches, event)) exposure.total_ms += message_ms;
      } else if (event.kind == EventKind::kWait) {
        const auto forward = starts.forward.find(key_of(event));
        const bool gradient = forward == starts.forward.end() || forward->second < event.start_ms;
        const auto sent = sends.find({gradient, gradient ? stage + 1 : stage - 1, event.microbatch.value});
        if (sent == sends.end()) continue;
        const double start = std::max(event.start_ms, sent->second);
        if (start < event.end_ms) waits.push_back({start, event.end_ms});
      }
    }
    // Both halves of a pair may wait at once.
    for (const Interval& wait : merged(std::move(waits))) exposure.exposed_ms += length_outside(wait, computes);
  }
  return exposure;
}

Exposure exchange_exposure(const std::vector<TimelineEvent>& rank, double exchange_ms,
                           const std::vector<Interval>& computed) {
  const std::vector<TimelineEvent> work = steady_work(rank);
  const SteadyState steady = steady_state(rank);
  double compute_ms = 0;
  for (const Interval& interval : computed) {
    compute_ms +=
        std::max(0.0, std::min(interval.end_ms, steady.end_ms) - std::max(interval.start_ms, steady.begin_ms));
  }
  return {exchange_ms * static_cast<double>(work.size()), std::max(0.0, time_of(work, rank, computed) - compute_ms)};
}

Exposure exchange_exposure(const std::vector<TimelineEvent>& rank, double exchange_ms,
                           const std::vector<StageCompute>& compute) {
  const std::vector<TimelineEvent> work = steady_work(rank);
  double compute_ms = 0;
  for (const TimelineEvent& event : work) {
    const StageCompute& stage = compute[static_cast<std::size_t>(event.stage.value)];
    compute_ms += is_forward(event) ? stage.forward_ms : stage.backward_ms;
  }
  return {exchange_ms * static_cast<double>(work.size()), std::max(0.0, time_of(work, rank, {}) - compute_ms)};
}

}  // namespace ppctl
