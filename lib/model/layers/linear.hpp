#pragma once

#include "arch/blueprint.hpp"
#include "model/layers/weight.hpp"
#include "model/weight_grad_queue.hpp"

namespace ppctl {

/// grad += a b. Where gradients have more digits than what is computed with, the product is rounded as such, once a
/// microbatch, and summed in the gradient's dtype.
void add_product(at::Tensor grad, const at::Tensor& a, const at::Tensor& b, bool separate = false);

/// y = x W^T + b. Stateless but for its weights; the caller keeps what the backward needs.
class Linear {
 public:
  Linear(ParameterGroup& group, const LinearOptions& options);
  void bind();

  /// x: [..., in] -> [..., out]. With `residual` of the result's shape: residual + x W^T + b.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& residual = {}) const;
  /// The gradient of x: dy W.
  at::Tensor input_grad(const at::Tensor& dy) const;
  /// Hands W's (and b's) gradient to the queue; it is added inside the matrix product. Nothing where they are frozen.
  void weight_grad(const at::Tensor& dy, const at::Tensor& x, WeightGradQueue& queue) const;

  bool trainable() const;

 private:
  void accumulate_weight(const at::Tensor& dy, const at::Tensor& x) const;
  void accumulate_bias(const at::Tensor& dy) const;

  LinearOptions::Layout layout_;
  std::int64_t in_features_;
  std::int64_t out_features_;
  bool separate_gradients_;
  Weight weight_;
  Weight bias_;
  at::Tensor in_out_;  ///< view of the weight as [in, out]
  at::Tensor out_in_;  ///< view of the weight as [out, in]
};

}  // namespace ppctl
