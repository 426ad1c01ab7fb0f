#pragma once

#include <cstdint>

#include "arch/blueprint.hpp"

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

}  // namespace ppctl
