#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.hpp"
#include "model/stage_module.hpp"
#include "trace/timeline.hpp"

namespace ppctl {

/// The loss of one microbatch, known on the rank that ran the last stage for it.
struct MicrobatchLoss {
  int microbatch = 0;
  LossReport report;
};

/// What this rank spent on one microbatch, over all of its stages. In an overlapped pair the times of its two
/// microbatches overlap, and contain the waits of one for the other.
struct MicrobatchTimes {
  Nanoseconds forward = 0;
  Nanoseconds backward = 0;  ///< dx and dw
  Nanoseconds wait = 0;      ///< the compute thread waited for this microbatch's tensors
};

/// One span on a rank, in nanoseconds of monotonic_now().
struct RecordedSpan {
  Nanoseconds start = 0;
  Nanoseconds end = 0;
  EventKind kind = EventKind::kOther;
  std::uint8_t lane = 0;
  StageId stage;
  MicrobatchId microbatch;
  PipelineRank peer;
};

/// What one rank knows after a step. Owned by the executor and reused by its next step.
struct StepResult {
  std::vector<MicrobatchLoss> losses;  ///< ascending by microbatch; those whose last stage is on this rank
  std::vector<TensorList> outputs;  ///< by microbatch: what the last stage returned (logits), where it is on this rank
  std::vector<MicrobatchTimes> times;  ///< by microbatch
  std::vector<RecordedSpan> spans;     ///< in order of end; only with ExecutorOptions::record_spans
  Nanoseconds start = 0;               ///< of the first step of the schedule
  Nanoseconds end = 0;                 ///< of its last step; waiting for sends to complete is not in it
  Nanoseconds busy = 0;                ///< in compute steps; an overlapped pair counts for as long as the pair took
  int peak_chunks = 0;                 ///< most (stage, microbatch) whose activations were alive at once

  void reset(std::size_t num_microbatches);
  /// The spans as a rank of a Timeline whose time starts at `origin`.
  std::vector<TimelineEvent> events(Nanoseconds origin) const;
};

}  // namespace ppctl
