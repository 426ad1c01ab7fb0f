#pragma once

#include <vector>

#include "comm/transport.hpp"
#include "runtime/timed_moe_module.hpp"
#include "schedule/schedule.hpp"
#include "trace/exposure.hpp"
#include "trace/timeline.hpp"

namespace ppctl {

/// A schedule of timed mixture-of-experts stages to measure. World rank p · ep + e is rank p of pipeline e; the ranks
/// of one p form an expert-parallel group.
struct OverlapCase {
  Schedule schedule;  ///< executable and proved; whole backwards
  int ep = 2;
  std::vector<TimedLayer> layers;  ///< of every stage
  double exchange_ms = 0;          ///< of one all-to-all, over the emulated link
  double message_ms = 0;           ///< of one message between stages, over the emulated link
  bool two_threads = false;        ///< OVERLAP_B_F runs on two threads
  int warmup_steps = 1;
  int measured_steps = 3;  ///< the one with the shortest wall time counts: others were disturbed
  double timeout_s = 120;
};

/// What communication cost a step, over all ranks.
struct OverlapMeasurement {
  double wall_ms = 0;               ///< from the start, the same moment on all ranks, to the end of the last rank
  Exposure exchange;                ///< in the ranks' steady states
  Exposure p2p;                     ///< in the ranks' steady states
  std::vector<Timeline> pipelines;  ///< of the measured step, one an expert-parallel rank
};

/// Runs the case on the first pp · ep ranks of `communicator`, all on one machine, over links that are emulated on top
/// of it: an all-to-all takes exchange_ms, a message message_ms, from when it is sent and its receive is posted.
/// COLLECTIVE over the communicator. The result is complete on rank 0 alone.
OverlapMeasurement measure_overlap(Communicator& communicator, const OverlapCase& bench);

/// The same with ranks as threads of this process.
OverlapMeasurement measure_overlap_inproc(const OverlapCase& bench);

}  // namespace ppctl
