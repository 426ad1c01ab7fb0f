#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/ids.hpp"
#include "model/stage_module.hpp"
#include "schedule/meta_step.hpp"

namespace ppctl {

class Executor;
class PipelineStage;

/// Runs the two sub-steps of an overlapped pair, at once or not; returns when both have ended. They may be called on
/// any thread.
using PairRunner = std::function<void(const std::function<void()>& backward, const std::function<void()>& forward)>;

/// What a custom function sees of the step that it handles. Valid during the call alone.
class StepContext {
 public:
  StepContext(Executor& executor, MetaStep step) : executor_(executor), step_(step) {}

  PipelineRank rank() const;
  /// Number of the training step (Microbatch::step).
  std::int64_t step_number() const;
  /// What the rank is doing ("step 12, 3F4"), as other ranks see it.
  const std::string& status() const;
  /// The step's stage. REQUIRES: the step has one.
  PipelineStage& stage() const;
  /// The step's microbatch. REQUIRES: the step has one.
  const Microbatch& microbatch() const;
  /// Of a composite: (backward, forward) for OVERLAP_B_F, the transfers for BATCH_SEND_RECV. Empty for other kinds.
  std::span<const MetaStep> sub_steps() const;

  /// What would have been done without the custom function.
  void run_default();
  /// Runs a step, usually a sub-step, as the executor would: with its own kind's custom function where there is one.
  void run(MetaStep step);
  /// Of OVERLAP_B_F: waits until the parameters of both halves are here, then hands the halves over. Each waits for its
  /// inputs on the thread that runs it, and starts the sends that wait for it alone. What runs at once must not touch
  /// the context.
  void run_pair(const PairRunner& run_both);

  /// What the step consumes: forward inputs of FORWARD, output gradients of BACKWARD and BACKWARD_INPUT (waits for a
  /// receive), the tensors that SEND_FORWARD and SEND_BACKWARD are to send. Gives them away: call once.
  TensorList take_inputs();
  /// What the step makes: outputs of FORWARD, input gradients of BACKWARD and BACKWARD_INPUT, and what came in for
  /// RECV_FORWARD and RECV_BACKWARD. A function that does not call run_default() passes it on with this.
  void give_outputs(TensorList tensors);

 private:
  Executor& executor_;
  MetaStep step_;
};

/// Replaces the handler of a kind of step.
using CustomFunction = std::function<void(const MetaStep& step, StepContext& context)>;

}  // namespace ppctl
