#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/transport.hpp"
#include "runtime/timed_module.hpp"
#include "schedule/pass.hpp"
#include "schedule/schedule.hpp"
#include "trace/timeline.hpp"

namespace ppctl {

/// One schedule to measure.
struct BubbleCase {
  Schedule schedule;                       ///< executable and proved
  std::vector<StageTimes> stages;          ///< one a stage
  std::optional<StageTimes> encoder = {};  ///< of MPipe's steps, where the schedule has some
  int warmup_steps = 1;                    ///< run before, not measured: edges agree on shapes there
  int measured_steps = 3;                  ///< the one with the shortest wall time counts: others were disturbed
  double timeout_s = 120;
  double offload_gbps = 0;  ///< of the tier that a swap's steps in the schedule go to, each way; 0: as fast as memory
};

/// Time that a rank's compute thread waited for one other rank.
struct MeasuredWait {
  PipelineRank peer;
  double ms = 0;
};

/// Where a rank's time went in the measured step. wall = busy + the idle times + overhead.
struct MeasuredRank {
  double busy_ms = 0;               ///< in its modules
  double first_ms = 0;              ///< start of its first compute step, from the start of the schedule
  double last_ms = 0;               ///< end of its last
  double warmup_ms = 0;             ///< idle before its first compute step
  double drain_ms = 0;              ///< idle after its last
  std::vector<MeasuredWait> waits;  ///< between the two, by whom it waited for
  double overhead_ms = 0;           ///< what is left: the executor's own time
  int peak_chunks = 0;              ///< most (stage, microbatch) whose activations were alive at once
};

struct BubbleMeasurement {
  double wall_ms = 0;   ///< from the start of the schedule, the same moment on all ranks, to the end of the last rank
  double span_ms = 0;   ///< the longest of the ranks' spans (own first to own last compute step), in the step in which
                        ///< that is least: an undisturbed wall time does not make an undisturbed span
  double ideal_ms = 0;  ///< the given times of the busiest rank's compute steps, the encoder's included
  std::vector<MeasuredRank> ranks;
  Timeline timeline;  ///< of the measured step, time 0 at its start

  /// Fractions (time − ideal) / time.
  double bubble_wall() const { return (wall_ms - ideal_ms) / wall_ms; }
  double bubble_span() const { return (span_ms - ideal_ms) / span_ms; }
};

/// Runs a schedule with timed stages on the ranks of `communicator`, the first schedule.pp() of which form the
/// pipeline; the others do nothing. COLLECTIVE over the communicator. The result is complete on rank 0 alone. All ranks
/// must be on one machine: their clocks are taken as one.
BubbleMeasurement measure_bubble(Communicator& communicator, const BubbleCase& bench);

/// The same with ranks as threads of this process.
BubbleMeasurement measure_bubble_inproc(const BubbleCase& bench);

}  // namespace ppctl
