#pragma once

#include <span>
#include <vector>

#include "topology/placement.hpp"
#include "trace/timeline.hpp"

namespace ppctl {

/// Communication, and the part of it in which the rank did nothing but wait for it.
struct Exposure {
  double total_ms = 0;
  double exposed_ms = 0;

  double hidden() const { return total_ms > 0 ? 1 - exposed_ms / total_ms : 1; }
  void add(const Exposure& other) {
    total_ms += other.total_ms;
    exposed_ms += other.exposed_ms;
  }
};

/// From the start of a rank's first backward to the end of its last forward, and of the pair that this is in: where it
/// has both to do. Empty (begin = end) where it never has.
struct SteadyState {
  double begin_ms = 0;
  double end_ms = 0;

  bool contains(const TimelineEvent& event) const { return event.start_ms >= begin_ms && event.end_ms <= end_ms; }
};
SteadyState steady_state(const std::vector<TimelineEvent>& rank);

/// A stretch of time of one rank.
struct Interval {
  double start_ms = 0;
  double end_ms = 0;
};
/// What a stage's compute takes where nothing is measured: without its exchanges.
struct StageCompute {
  double forward_ms = 0;
  double backward_ms = 0;
};

/// The messages between stages that the ranks of a schedule receive in their steady states, each of which takes
/// `message_ms` from its send to its arrival. Exposed is what a rank waits for one after it was sent (or, in a
/// simulation with rendezvous, after it started): before that it waits for the sender's work. Takes measured and
/// simulated timelines of whole forwards and backwards. `computed`, by rank and in order, is when a rank computed while
/// half of a pair of it waited, which is then not exposed; the waits of a simulation have none of that.
Exposure p2p_exposure(const Placement& placement, int num_microbatches, const Timeline& timeline, double message_ms,
                      std::span<const std::vector<Interval>> computed = {});

/// The exchanges inside of a rank's forwards and backwards in its steady state, `exchange_ms` in each of them. Exposed
/// is the time of these steps in which the rank neither computed nor waited for the input of one: `computed` says when
/// it computed, in order.
Exposure exchange_exposure(const std::vector<TimelineEvent>& rank, double exchange_ms,
                           const std::vector<Interval>& computed);
/// The same of a simulated rank, whose steps compute for as long as `compute` says, by stage.
Exposure exchange_exposure(const std::vector<TimelineEvent>& rank, double exchange_ms,
                           const std::vector<StageCompute>& compute);

}  // namespace ppctl
