#pragma once

#include <vector>

#include "arch/model_spec.hpp"
#include "arch/stage_range.hpp"
#include "config/job_config.hpp"
#include "topology/layer_split.hpp"

namespace ppctl {

/// What one part of a model does for a microbatch, in operations or milliseconds.
struct PartWork {
  double forward = 0.0;
  double dx = 0.0;  ///< with the forwards that run again before it
  double dw = 0.0;

  double total() const { return forward + dx + dw; }
  PartWork& operator+=(const PartWork& other);
};

/// The parts of a model in one unit.
struct ModelWork {
  PartWork embedding;
  std::vector<PartWork> layers;
  PartWork head;
  std::int64_t first_stage_layer = 0;  ///< layers before it, and the embedding, are in no stage
  bool stages_have_embedding = true;
  bool in_ms = false;  ///< measured; else operations of one token

  /// Of a stage.
  PartWork of(const StageRange& range) const;
  /// Forward and backward of each part, which `layers: auto` splits by.
  LayerCosts split_costs() const;
};

/// By the operations that the layers have, for one token. `activations`: of each layer of the stages; empty: nothing is
/// recomputed.
ModelWork operations_of(const ModelSpec& spec, const std::vector<LayerActivations>& activations, std::int64_t sequence);

/// As the job's profile measured it, else by the operations that the layers have. A recomputed part is taken to cost
/// its share of the layer's measured forward. Throws Error where the profile is of another model or other microbatches.
ModelWork model_work(const JobConfig& job, const ModelSpec& spec, const std::vector<LayerActivations>& activations);

}  // namespace ppctl
