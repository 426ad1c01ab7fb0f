#pragma once

#include <span>
#include <string>
#include <string_view>

#include "schedule/schedule.hpp"

namespace ppctl {

/// Which passes lower a generated schedule, and their options. The defaults give what a plain job runs.
struct PassOptions {
  bool split_backward = false;     ///< BACKWARD -> BACKWARD_INPUT + BACKWARD_WEIGHT, dw deferred into bubbles
  bool overlap_b_f = false;        ///< steady (B, F) pairs become OVERLAP_B_F
  bool overlap_p2p = false;        ///< receives are posted one beat ahead of their consumer
  bool duplex = false;             ///< what one beat sends to and receives from one peer becomes one BATCH_SEND_RECV
  bool fsdp = false;               ///< UNSHARD, RESHARD, REDUCE_GRAD steps
  bool reshard_after_forward = false;
  bool reduce_every_microbatch = false;
  int unshard_lookahead = 3;       ///< distinct stages
  bool swap = false;               ///< LAUNCH_/WAIT_ OFFLOAD/LOAD steps where the backward comes at least swap_distance slots later
  int swap_distance = 4;
};

/// One pass. `needs` and `keeps` are for people (docs, --help) and are checked where they can be.
struct PassInfo {
  std::string_view name;
  std::string_view summary;
  std::string_view needs;
  std::string_view keeps;
  bool (*wanted)(const PassOptions&);
  /// Throws Error, naming the pass, where it cannot be applied to this schedule.
  void (*apply)(Schedule&, const PassOptions&);
};

/// All passes in the order in which they run. Communication always runs.
std::span<const PassInfo> passes();

/// Applies every wanted pass, in order. Compute steps in, executable steps out.
void lower_schedule(Schedule& schedule, const PassOptions& options);

}  // namespace ppctl
