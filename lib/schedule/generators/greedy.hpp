#pragma once

#include <optional>
#include <vector>

#include "schedule/generator.hpp"

namespace ppctl {

/// The choices that the greedy search leaves open; auto tries their combinations.
struct GreedySettings {
  bool inputs_first = false;  ///< where F and I are both ready, I rather than the one that was not last
  bool fill_small_gaps =
      false;  ///< W also into a gap shorter than W, where waiting would make this rank the one with most idle time
  bool fill_while_draining = false;  ///< the same after the rank's last F, when a late I delays the ranks before it
  bool weight_for_room = false;      ///< where F waits for memory, W rather than a second I
  int one_more = -1;  ///< the rank that runs one more F instead of waiting for its first I: it delays that I by less
                      ///< than an F, and every rank before it gets an F for it, so the waits, which add up from rank to
                      ///< rank, start from nothing there
};

/// What the search may use.
struct GreedyLimits {
  double peak_chunks = 0;      ///< most activations that a rank holds, in chunks
  double kept_for_weight = 0;  ///< the share of an activation that stays from I to W
};

/// The zero-bubble paper's greedy order (Qi et al., arXiv 2401.10241, section 3.1): runs the pipeline in time, each
/// rank doing F up to the memory limit, then F and I in turn, and W where it would wait or needs memory. `costs` has
/// one entry a stage. Nothing if the search ran into a deadlock (memory is full of microbatches that cannot go on).
std::optional<Schedule> greedy_order(const ScheduleSpec& spec, const Placement& placement,
                                     const std::vector<ChunkCosts>& costs, const GreedyLimits& limits,
                                     const GreedySettings& settings);

}  // namespace ppctl
