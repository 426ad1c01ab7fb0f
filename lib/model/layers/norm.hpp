#pragma once

#include "arch/blueprint.hpp"
#include "model/layers/layer.hpp"
#include "model/layers/weight.hpp"

namespace ppctl {

/// RMSNorm, or LayerNorm with bias, over the hidden dim. Its weight gradients are summed in the same pass as the
/// input's gradient, so they are never deferred.
class Norm {
 public:
  Norm(ParameterGroup& group, const NormOptions& options);
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
  NormKind kind_;
  double eps_;
  Weight weight_;
  Weight bias_;
};

}  // namespace ppctl
