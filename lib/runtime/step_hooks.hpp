#pragma once

#include <span>
#include <string_view>

#include "runtime/step_context.hpp"
#include "runtime/tensor_router.hpp"
#include "schedule/meta_step.hpp"
#include "shard/shard_hooks.hpp"

namespace ppctl {

/// What moves the saved activations of (stage, microbatch) out of the way and back. Launches do not block.
class SwapHooks {
 public:
  virtual ~SwapHooks() = default;
  virtual void launch_offload(StepContext& context) = 0;
  virtual void wait_offload(StepContext& context) = 0;
  virtual void launch_load(StepContext& context) = 0;
  virtual void wait_load(StepContext& context) = 0;
};

/// What runs the steps of MPipe's transposed part (data loading, encoder, and their transfers); the context has the
/// step. `context`, where it is a text, says what the rank is doing, for the message of a wait that fails.
class PreprocessHooks {
 public:
  virtual ~PreprocessHooks() = default;
  virtual void run(const MetaStep& step, StepContext& context) = 0;

  /// Waits for what `step` needs of another rank, before it is run. `wait` gets how long.
  virtual void await(const MetaStep& /*step*/, std::string_view /*context*/, WaitSpan* /*wait*/) {}
  /// Around a step's program. The microbatches stay valid in between. COLLECTIVE over the pipeline.
  virtual void begin_step(std::span<const Microbatch> /*microbatches*/) {}
  virtual void end_step(std::string_view /*context*/) {}
  /// Whether that stage takes features, behind its other inputs.
  virtual bool feeds(StageId /*stage*/) const { return false; }
  /// The features of a forward of that stage; waits for them.
  virtual TensorList take_features(const MetaStep& /*forward*/, std::string_view /*context*/, WaitSpan* /*wait*/) {
    return {};
  }
  /// Their gradients, which a backward of the stage has made.
  virtual void give_feature_grads(const MetaStep& /*backward*/, TensorList /*grads*/) {}
};

/// The machinery that a schedule's steps may need besides compute and point-to-point messages. A step whose hooks are
/// null is an Error that names its kind. Not owned.
struct StepHooks {
  ShardHooks* shard = nullptr;
  SwapHooks* swap = nullptr;
  PreprocessHooks* preprocess = nullptr;
};

}  // namespace ppctl
