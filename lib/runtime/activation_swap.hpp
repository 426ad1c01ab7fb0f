#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/copy_lane.hpp"
#include "runtime/pipeline_stage.hpp"
#include "runtime/step_hooks.hpp"
#include "storage/swap_store.hpp"

namespace ppctl {

/// What an ActivationSwap has done since it was made.
struct SwapStats {
  std::int64_t offloads = 0;     ///< of (stage, microbatch)
  std::int64_t bytes = 0;        ///< written; as many are read
  Nanoseconds offload_wait = 0;  ///< that the compute thread waited
  Nanoseconds load_wait = 0;
};

/// Moves what swap_wrapper() is around into a store between forward and backward.
///
/// A tensor keeps its place in SavedActivations; the memory below it goes away and comes back (flat_storage.hpp), once
/// for all tensors that share it. Left alone are parameters, what came from or goes to another stage, the microbatch's
/// inputs, and memory that somebody else holds as well. Launches hand the copies to two threads, one for each
/// direction; memory is freed and taken by the thread that computes, in the WAIT_OFFLOAD and LAUNCH_LOAD steps.
///
/// Steps are for one thread. A copy that failed throws Error in its WAIT_ step.
class ActivationSwap : public SwapHooks {
 public:
  /// `timeout_s`: of each wait for a copy.
  ActivationSwap(std::unique_ptr<SwapStore> store, double timeout_s);
  /// Waits for copies under way.
  ~ActivationSwap() override = default;

  void launch_offload(StepContext& context) override;
  void wait_offload(StepContext& context) override;
  void launch_load(StepContext& context) override;
  void wait_load(StepContext& context) override;

  const SwapStats& stats() const { return stats_; }
  const SwapStore& store() const { return *store_; }

 private:
  using Key = std::pair<int, int>;  ///< stage, microbatch
  /// What is on its way or away: one tensor for each piece of memory.
  struct Chunk {
    std::shared_ptr<const TensorList> tensors;
    SwapStore::Slot slot = 0;
    CopyLane::Ticket ticket = 0;
  };

  static Key key_of(const StepContext& context);
  /// Null where nothing of the step's activations was offloaded.
  Chunk* chunk_of(const StepContext& context);
  Deadline deadline() const;

  std::unique_ptr<SwapStore> store_;
  double timeout_s_;
  SwapStats stats_;
  std::map<Key, Chunk> chunks_;
  CopyLane offloads_;  ///< last: they use the store and hold tensors
  CopyLane loads_;
};

/// The tensors below which memory may be moved, one for each piece of it, in the order in which they were saved.
TensorList movable_tensors(PipelineStage& stage, int microbatch);

}  // namespace ppctl
