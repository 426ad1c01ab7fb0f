#pragma once

#include <vector>

#include "simulate/rank_memory.hpp"

namespace ppctl {

/// What a job's stages hold and what they do with their activations: `plan` and `train` decide alike.
struct ModelPlan {
  std::vector<int> layer_counts;              ///< of each stage
  std::vector<LayerActivations> activations;  ///< of each layer of the model
};

/// As the job's `pipeline.layers`, `recompute` and `swap` say. Where the job has a `memory_gib`, `layers: auto` takes
/// the fastest split with which every rank of `schedule` (lowered) stays below it, and `swap: {layers: auto}` moves as
/// few layers of each stage as that needs. Without one, the fastest split, and all layers. Throws Error, with the
/// numbers, where they do not fit the stages, or no split the memory.
ModelPlan model_plan(const JobConfig& job, const ModelSpec& spec, const Schedule& schedule);

/// How a job's ranks hold its model. See model_plan().
MemoryModel memory_model(const JobConfig& job, const ModelSpec& spec, ModelPlan plan);

}  // namespace ppctl
