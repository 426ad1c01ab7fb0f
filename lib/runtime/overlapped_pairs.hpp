#pragma once

#include <map>
#include <optional>
#include <string>

#include "comm/transport.hpp"
#include "overlap/comm_compute_overlap.hpp"
#include "runtime/step_context.hpp"

namespace ppctl {

/// What runs the steps OVERLAP_B_F of an executor: the backward on its thread, the forward on a second one that lives
/// as long as this object, in the first one's thread-local state (gradient mode, memory meter, threads of an operator).
/// Exchanges that go through overlap() are hidden under the compute of the other side.
///
/// A half begins when its inputs are here and sends when it is done; in between it may wait for the other one at a
/// meeting. How many exchanges a stage has is learnt from its first pair: where one side has none, nobody waits for it,
/// and where neither has any, the two run one after the other, since ranks fill the cores and there is nothing to hide.
/// When one side fails, the transport is aborted, so that the other one, which may wait for another rank, ends with it.
///
/// Gives the bits of pairs that run one after the other: a forward and a backward of different microbatches write
/// nothing in common.
class OverlappedPairs {
 public:
  /// `timeout_s`: of each meeting. The transport must outlive the object.
  OverlappedPairs(Transport& transport, double timeout_s);

  /// For Executor::register_custom_function(MetaStepType::OVERLAP_B_F, ...). The object must outlive it.
  CustomFunction function() {
    return [this](const MetaStep&, StepContext& context) { run(context); };
  }
  CommComputeOverlap& overlap() { return overlap_; }

 private:
  struct Exchanges {
    std::optional<int> forward;
    std::optional<int> backward;
  };

  void run(StepContext& context);

  std::string status_;  ///< of the rank, while a pair runs
  CommComputeOverlap overlap_;
  std::map<int, Exchanges> exchanges_;  ///< by stage
};

}  // namespace ppctl
