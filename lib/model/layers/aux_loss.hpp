#pragma once

#include <cstdint>

#include "arch/blueprint.hpp"
#include "model/aten.hpp"

namespace ppctl {

/// The auxiliary loss of one microbatch; see AuxLossConfig. Layers are pooled before the product, so what they add up
/// travels along the pipeline with the activations: "router sums", float64, [2, experts], tokens that chose each expert
/// and the sums of its probabilities. The gradient of the latter, the same for every layer, comes back with the
/// gradients. The counts are constants.
class AuxLoss {
 public:
  explicit AuxLoss(const AuxLossConfig& config) : config_(config) {}
  bool active() const { return config_.coefficient != 0.0; }

  /// What the first stage begins with.
  at::Tensor no_sums() const;
  /// The loss of a microbatch of `num_tokens` tokens, its coefficient included.
  double value(const at::Tensor& sums, std::int64_t num_tokens) const;
  /// Its gradient with respect to the sums of probabilities, times `scale`: float64, [experts].
  at::Tensor gradient(const at::Tensor& sums, std::int64_t num_tokens, double scale) const;

 private:
  /// coefficient * experts / (router rows)^2
  double factor(std::int64_t num_tokens) const;

  AuxLossConfig config_;
};

}  // namespace ppctl
