#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.hpp"

namespace ppctl {

/// What a span of time of a rank was spent on. Colours and letters of renderers hang on it.
enum class EventKind : std::uint8_t {
  kForward,
  kBackward,
  kBackwardInput,
  kBackwardWeight,
  kOverlapped,  ///< a composite of forward and backward
  kSend,
  kRecv,
  kWait,        ///< the compute thread waits for a message; `peer` is from whom
  kCollective,  ///< unshard, reduce, gradient norm
  kOffload,
  kLoad,
  kLoadData,
  kEncoderForward,
  kEncoderBackward,
  kEncoderBackwardInput,
  kEncoderBackwardWeight,
  kOptimizer,
  kOther,
};

/// One span. Times are in milliseconds from the start of the step, on one clock for all ranks.
struct TimelineEvent {
  double start_ms = 0;
  double end_ms = 0;
  EventKind kind = EventKind::kOther;
  std::uint8_t lane = 0;  ///< 0: compute thread, 1: second thread, 2: communication
  StageId stage;
  MicrobatchId microbatch;
  PipelineRank peer;
};

/// What happened (a run) or would happen (the simulator) in one step. The same type for both, so that they can be laid
/// side by side.
struct Timeline {
  std::string title;
  std::vector<std::vector<TimelineEvent>> ranks;  ///< one a pipeline rank, each sorted by start
};

}  // namespace ppctl
