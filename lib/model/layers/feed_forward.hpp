#pragma once

#include "model/kernels/activation.hpp"
#include "model/layers/layer.hpp"
#include "model/layers/linear.hpp"

namespace ppctl {

/// The second half of a decoder layer.
class FeedForward {
 public:
  virtual ~FeedForward() = default;
  virtual void bind() = 0;
  /// residual + f(x). An undefined residual counts as zero.
  virtual at::Tensor forward(const at::Tensor& x, const at::Tensor& residual, const ForwardContext& context) const = 0;
  /// The gradient of x alone.
  virtual at::Tensor backward(const at::Tensor& dy, const BackwardContext& context) const = 0;
};

/// See MlpConfig. The activated values are not kept: the backward finds them again on its way.
class Mlp : public FeedForward {
 public:
  Mlp(ParameterGroup& group, const MlpConfig& config);
  void bind() override;
  at::Tensor forward(const at::Tensor& x, const at::Tensor& residual, const ForwardContext& context) const override;
  at::Tensor backward(const at::Tensor& dy, const BackwardContext& context) const override;

 private:
  bool gated_;
  kernels::Activation activation_;
  Linear in_;
  Linear down_;
};

}  // namespace ppctl
