#include "model/layers/norm.hpp"

#include "arch/declare.hpp"
#include "model/kernels/norm.hpp"

namespace ppctl {

Norm::Norm(ParameterGroup& group, const NormOptions& options)
    : kind_(options.kind), eps_(options.eps), weight_(group, {norm_weight(options.name, options.size)}) {
  if (kind_ == NormKind::kLayer) bias_ = Weight(group, {norm_bias(options.name, options.size)});
}

void Norm::bind() {
  weight_.bind();
  bias_.bind();
}

Norm::Output Norm::forward(const at::Tensor& x, const at::Tensor& residual, const ForwardContext& context) const {
  const kernels::NormOutput out = kind_ == NormKind::kRms
                                      ? kernels::rms_norm(x, residual, weight_.data(), eps_)
                                      : kernels::layer_norm(x, residual, weight_.data(), bias_.data(), eps_);
  context.save(out.sum);
  context.save(out.statistics);
  return {out.y, out.sum};
}

at::Tensor Norm::backward(const at::Tensor& dy, const at::Tensor& residual_grad, const BackwardContext& context) const {
  const at::Tensor statistics = context.saved.pop();
  const at::Tensor x = context.saved.pop();
  if (kind_ == NormKind::kRms) {
    return kernels::rms_norm_backward(dy, residual_grad, x, statistics, weight_.data(),
                                      weight_.wanted_grad(context.queue));
  }
  return kernels::layer_norm_backward(dy, residual_grad, x, statistics, weight_.data(),
                                      weight_.wanted_grad(context.queue), bias_.wanted_grad(context.queue));
}

}  // namespace ppctl
