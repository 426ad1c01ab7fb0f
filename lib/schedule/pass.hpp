#pragma once

#include <span>
#include <string>
#include <string_view>

#include "schedule/mpipe_options.hpp"
#include "schedule/schedule.hpp"

// What executable steps mean, for the executor and the simulator alike.
//
// Every rank runs its steps in order on one compute thread. Only compute steps and the WAIT_ steps hold it up.
//
//   SEND_x(stage, microbatch, peer)   starts the transfer of what `stage` has just produced and never blocks: the
//   buffer is kept until the
//                                     transfer is complete, and a wait for that comes as late as possible (when the
//                                     buffer is needed again, or at the end of the step).
//   RECV_x(stage, microbatch, peer)   posts the receive of what `stage` will consume and never blocks; the compute step
//   that consumes it
//                                     waits for it.
//   BATCH_SEND_RECV                   its sub-steps are sends and receives with one peer, started as one grouped call.
//   What consumes one of
//                                     its receives waits for the whole batch.
//   OVERLAP_B_F                       its sub-steps are a backward and then a forward, on two threads at once; whoever
//   does not overlap runs
//                                     them in that order. It starts when the inputs of both are there.
//   UNSHARD, RESHARD, REDUCE_GRAD     of the stage's parameters and gradients; an UNSHARD may be started early and
//   waited at the first use. LAUNCH_x, WAIT_x                  of the activations of (stage, microbatch); LAUNCH_ steps
//   never block.
//
// Between two stages of one rank tensors pass without communication: no step stands for that.

namespace ppctl {

/// Which passes lower a generated schedule, and their options. The defaults give what a plain job runs.
struct PassOptions {
  bool split_backward = false;  ///< BACKWARD -> BACKWARD_INPUT + BACKWARD_WEIGHT, dw deferred into bubbles
  bool overlap_b_f = false;     ///< steady (B, F) pairs become OVERLAP_B_F
  bool overlap_p2p = false;     ///< receives are posted one beat ahead of their consumer
  bool duplex = false;          ///< what one beat sends to and receives from one peer becomes one BATCH_SEND_RECV
  bool fsdp = false;            ///< UNSHARD, RESHARD, REDUCE_GRAD steps
  bool reshard_after_forward = false;
  bool reduce_every_microbatch = false;
  int unshard_lookahead = 3;  ///< distinct stages
  MpipeOptions mpipe;
  bool swap = false;  ///< LAUNCH_/WAIT_ OFFLOAD/LOAD steps where the backward comes at least swap_distance slots later
  int swap_distance = 4;
};

/// One pass. `needs` and `keeps` are for people (docs, --help) and are checked where they can be.
struct PassInfo {
  std::string_view name;
  std::string_view summary;
  std::string_view needs;
  std::string_view keeps;
  /// Whether these options ask for the pass, and it has something to do for this schedule.
  bool (*wanted)(const Schedule&, const PassOptions&);
  /// Throws Error, naming the pass, where it cannot be applied to this schedule.
  void (*apply)(Schedule&, const PassOptions&);
};

/// All passes in the order in which they run. Communication always runs.
std::span<const PassInfo> passes();

/// Applies every wanted pass, in order, and writes its name into schedule.passes. Compute steps in, executable steps
/// out; time and memory are linear in the steps. The result still has to be verified: a schedule that deadlocks stays
/// one that deadlocks.
///
/// Throws Error where a pass cannot be applied, where the schedule has other than compute steps, or steps that its
/// placement or its number of microbatches does not know.
void lower_schedule(Schedule& schedule, const PassOptions& options);

}  // namespace ppctl
