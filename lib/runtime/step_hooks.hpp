#pragma once

#include "runtime/step_context.hpp"
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
/// step.
class PreprocessHooks {
 public:
  virtual ~PreprocessHooks() = default;
  virtual void run(const MetaStep& step, StepContext& context) = 0;
};

/// The machinery that a schedule's steps may need besides compute and point-to-point messages. A step whose hooks are
/// null is an Error that names its kind. Not owned.
struct StepHooks {
  ShardHooks* shard = nullptr;
  SwapHooks* swap = nullptr;
  PreprocessHooks* preprocess = nullptr;
};

}  // namespace ppctl
