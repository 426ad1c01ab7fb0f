#pragma once

#include <cstdint>
#include <vector>

#include "arch/blueprint.hpp"
#include "arch/model_spec.hpp"

namespace ppctl {

/// What becomes of the tensors that a layer saves for its backward.
struct LayerActivations {
  RecomputeParts recompute;
  bool swapped = false;  ///< they leave memory where the schedule says so (LAUNCH_OFFLOAD)

  bool operator==(const LayerActivations&) const = default;
};

/// Which part of a model a stage holds.
struct StageRange {
  std::int64_t first_layer = 0;
  std::int64_t last_layer = 0;  ///< behind the last one
  bool has_embedding = false;
  bool has_head = false;
  ExpertShare experts = {};                        ///< of each of its layers
  std::vector<LayerActivations> activations = {};  ///< of its layers; empty: all of them are kept

  static StageRange whole(const ModelSpec& spec) { return {0, spec.num_layers, true, true, {}, {}}; }

  /// Of a layer of the model that the stage holds.
  LayerActivations activations_of(std::int64_t layer) const {
    return activations.empty() ? LayerActivations() : activations.at(static_cast<std::size_t>(layer - first_layer));
  }
};

/// What MPipe computes outside of the stages. REQUIRES: spec.transposed_layers >= 0.
inline StageRange transposed_range(const ModelSpec& spec) { return {0, spec.transposed_layers, true, false}; }

/// Where images enter the language model: in front of its first layer.
inline bool merges_images(const ModelSpec& spec, const StageRange& range) {
  return spec.vision && range.first_layer <= spec.num_vision_layers() && spec.num_vision_layers() < range.last_layer;
}
inline bool reads_tokens(const ModelSpec& spec, const StageRange& range) {
  return spec.vision ? merges_images(spec, range) : range.has_embedding;
}
inline bool reads_images(const ModelSpec& spec, const StageRange& range) { return spec.vision && range.has_embedding; }

}  // namespace ppctl
