#pragma once

#include <string>

#include "model/layers/layer.hpp"
#include "model/layers/weight.hpp"

namespace ppctl {

/// RMSNorm, or LayerNorm with bias, over the hidden dim. Its weight gradients are summed in the same pass as the
/// input's gradient, so they are never deferred.
class Norm {
 public:
  enum class Kind { kRms, kLayer };
  /// `name`: "model.norm"; ".weight" and ".bias" follow.
  Norm(ParameterGroup& group, Kind kind, const std::string& name, std::int64_t size, double eps);
  void bind();

  struct Output {
    at::Tensor y;    ///< the normalised sum
    at::Tensor sum;  ///< x + residual, or x
  };
  /// Normalises x, or x + residual where that is defined. Saves the sum and its statistics.
  Output forward(const at::Tensor& x, const at::Tensor& residual, const ForwardContext& context) const;
  /// The gradient with respect to the sum, plus `residual_grad` where that is defined.
  at::Tensor backward(const at::Tensor& dy, const at::Tensor& residual_grad, const BackwardContext& context) const;

 private:
  Kind kind_;
  double eps_;
  Weight weight_;
  Weight bias_;
};

}  // namespace ppctl
