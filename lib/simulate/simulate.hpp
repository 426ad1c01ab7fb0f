#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.hpp"
#include "simulate/cost_model.hpp"
#include "trace/timeline.hpp"

namespace ppctl {

struct SimulateOptions {
  bool timeline = false;         ///< record every span (40 bytes each); off for large plans
  bool communication = true;     ///< with `timeline`: also lane 2, transfers and collectives
  std::vector<double> start_ms;  ///< by rank: when it begins; empty: all at 0
};

/// Time that a rank's compute thread waited for one other rank's message.
struct PeerWait {
  PipelineRank peer;
  double ms = 0;
};

/// Where a rank's idle time went. wall = busy + the sum of these.
struct RankIdle {
  double warmup_ms = 0;         ///< from time 0 to its first compute step
  double drain_ms = 0;          ///< from its last compute step to the end of the schedule
  std::vector<PeerWait> waits;  ///< between the two, by whom it waited for; peers without a wait are left out
  double collective_ms = 0;     ///< waiting for an UNSHARD
  double offload_ms = 0;        ///< waiting for an offload or a load

  double total_ms() const;
};

/// What one rank did.
struct RankResult {
  double busy_ms = 0;     ///< sum of its compute steps (an overlapped pair counts what the pair takes)
  double first_ms = 0;    ///< start of its first compute step
  double last_ms = 0;     ///< end of its last step, collectives included
  int peak_chunks = 0;    ///< most activations of (stage, microbatch) resident at once
  double peak_bytes = 0;  ///< most bytes of activations at once, plus the state of its stages
  RankIdle idle;

  double span_ms() const { return last_ms - first_ms; }
};

/// A schedule, timed.
struct Simulation {
  double wall_ms = 0;   ///< from 0 to the end of the last rank
  double span_ms = 0;   ///< the longest of the ranks' spans: own first step to own last step
  double ideal_ms = 0;  ///< the work of the busiest rank: no order of these steps takes less
  std::vector<RankResult> ranks;
  std::int64_t num_steps = 0;     ///< of all ranks; a composite is one
  std::int64_t p2p_messages = 0;  ///< tensors that cross ranks
  std::int64_t p2p_calls = 0;     ///< sends, receives and batches that are issued (0 for compute steps only)
  std::int64_t p2p_batches = 0;
  Timeline timeline;  ///< empty unless asked for

  /// Fractions (time − ideal) / time; 0 for an empty schedule.
  double bubble_wall() const { return wall_ms > 0 ? (wall_ms - ideal_ms) / wall_ms : 0; }
  double bubble_span() const { return span_ms > 0 ? (span_ms - ideal_ms) / span_ms : 0; }
};

/// Runs a schedule in virtual time, in time linear in its steps.
///
/// Takes a generator's output (compute steps: messages follow from the dependency graph and start when their producer
/// ends) and lowered schedules (a SEND starts a transfer and blocks nobody, a RECV is posted, the step that uses the
/// tensor waits; collectives and offloads run beside compute, one after the other on a lane of their own).
///
/// Throws Error where the costs do not fit, where a step is outside the placement, and where the schedule deadlocks:
/// one line that says which rank waits at which step for what.
Simulation simulate(const Schedule& schedule, const CostModel& costs, const SimulateOptions& options = {});

}  // namespace ppctl
