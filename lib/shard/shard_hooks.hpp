#pragma once

#include "base/ids.hpp"

namespace ppctl {

/// What runs the steps UNSHARD, RESHARD and REDUCE_GRAD of a schedule, and is told before a stage computes. Called by
/// the executor's thread, in the schedule's order (before_compute also by the second thread of an overlapped pair, one
/// call at a time and after the first thread has waited for the same parameters).
class ShardHooks {
 public:
  virtual ~ShardHooks() = default;
  /// Starts to bring the stage's whole parameters here.
  virtual void unshard(StageId stage) = 0;
  /// Frees them.
  virtual void reshard(StageId stage) = 0;
  /// Waits until the parameters are here; where weight gradients follow, sees that these have memory.
  virtual void before_compute(StageId stage, bool makes_weight_grads) = 0;
  /// Reduces the stage's gradients over the ranks that share its parameters.
  virtual void reduce_grad(StageId stage) = 0;
};

}  // namespace ppctl
