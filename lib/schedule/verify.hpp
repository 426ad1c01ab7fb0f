#pragma once

#include <string>
#include <vector>

#include "schedule/schedule.hpp"

namespace ppctl {

/// How an edge (an ordered pair of ranks and a direction) maps to a communicator, for the in-order semantics.
enum class CommunicatorMap {
  kOnePerPair,              ///< both directions and both kinds of tensor of two ranks share one (the hardest)
  kOnePerDirection,         ///< one for each ordered pair of ranks
  kOnePerDirectionAndKind,  ///< one for each ordered pair and kind (activations, gradients)
};

struct VerifyOptions {
  bool in_order_rendezvous = true;  ///< also prove the schedule under NCCL's semantics, with `communicators`
  CommunicatorMap communicators = CommunicatorMap::kOnePerDirectionAndKind;
  bool communication = true;  ///< false: compute steps only (a generator's output)
  bool fsdp = false;          ///< UNSHARD / REDUCE_GRAD must be there
};

/// A fault in a schedule.
struct ScheduleFault {
  PipelineRank rank;
  int step_number = -1;   ///< index in ranks[rank].steps, or -1 for a fault of the whole rank
  MetaStep step;          ///< for a fault of the whole rank: the step that is missing, if it is one
  std::string step_text;  ///< of `step`, a composite with its sub-steps; empty for a fault of the whole rank
  std::string reason;

  /// "rank 2, step 17 (3SEND_F1): ...", or "rank 2: ...".
  std::string text() const;
};

/// What a schedule that was proved needs.
struct VerifyResult {
  std::vector<ScheduleFault> faults;  ///< empty: proved. At most 20 are collected.
  std::vector<int> peak_chunks;       ///< by rank: most activations of (stage, microbatch) alive at once
  bool backward_in_order =
      true;  ///< every stage runs its backwards in ascending microbatch order (bit-identical losses)

  bool ok() const { return faults.empty(); }
};

/// Proves a schedule in time linear in its steps: each stage and microbatch computed exactly once; order of F, dx, dw;
/// each send matched by its receive; no deadlock with tags and buffers as MPI has them, and with in-order rendezvous
/// per communicator as NCCL has it; received before used; unsharded when used; gradients reduced after the last one;
/// activation resident when used.
VerifyResult verify_schedule(const Schedule& schedule, const VerifyOptions& options = {});

/// verify_schedule, and throws Error with the first fault and the grid around it.
VerifyResult verify_schedule_or_throw(const Schedule& schedule, const VerifyOptions& options = {});

}  // namespace ppctl
