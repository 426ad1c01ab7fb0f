#pragma once

#include <cstdint>

#include "arch/blueprint.hpp"
#include "arch/model_spec.hpp"

namespace ppctl {

/// What a part of a model computes for one token where a sequence has `sequence` tokens: matrix products and attention;
/// what is elementwise is left out. A multiplication and an addition are two operations.
struct PartCost {
  std::int64_t parameters = 0;  ///< a tied weight counts where it is used first
  double forward_flops = 0.0;
  double dx_flops = 0.0;
  double dw_flops = 0.0;
  double recompute_flops = 0.0;  ///< forwards that the backward runs again, before dx

  double total_flops() const { return forward_flops + dx_flops + dw_flops + recompute_flops; }
  PartCost& operator+=(const PartCost& other);
};

PartCost cost_of(const TokenEmbeddingConfig& config);
PartCost cost_of(const DecoderLayerConfig& config, std::int64_t sequence);
PartCost cost_of(const LanguageHeadConfig& config);

/// Per image.
PartCost cost_of(const PatchEmbeddingConfig& config);
PartCost cost_of(const ImageMergeConfig& config);

/// Of a model's parts, per token of a sequence of `sequence` tokens with as many images as spec.vision says. Where
/// nothing before a part is trained, nobody computes the gradient of its input, and of frozen weights there is no
/// gradient. `layer` is that of number `index`.
PartCost layer_cost(const ModelSpec& spec, const DecoderLayerConfig& layer, std::int64_t index, std::int64_t sequence);
/// What is in front of the first layer: the token or the patch embedding.
PartCost embedding_cost(const ModelSpec& spec, std::int64_t sequence);
/// What is in front of the first text layer. REQUIRES: spec.vision.
PartCost merge_cost(const ModelSpec& spec, std::int64_t sequence);

}  // namespace ppctl
