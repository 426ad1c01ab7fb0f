#include "model/layers/feed_forward.hpp"

namespace ppctl {

Mlp::Mlp(ParameterGroup& group, const MlpConfig& config)
    : gated_(config.gated()), activation_(config.activation), in_(group, config.in), down_(group, config.down) {}

void Mlp::bind() {
  in_.bind();
  down_.bind();
}

at::Tensor Mlp::forward(const at::Tensor& x, const at::Tensor& residual, const ForwardContext& context) const {
  const at::Tensor inner = in_.forward(x);
  context.save(x);
  context.save(inner);
  if (!context.wants_output) return {};
  return down_.forward(gated_ ? kernels::gate(inner, activation_) : kernels::activate(inner, activation_), residual);
}

at::Tensor Mlp::backward(const at::Tensor& dy, const BackwardContext& context) const {
  const at::Tensor inner = context.saved.pop();
  const at::Tensor dactivated = down_.input_grad(dy);
  const at::Tensor activated = at::empty(dactivated.sizes(), dactivated.options());
  const at::Tensor dinner = gated_ ? kernels::gate_backward(dactivated, inner, activation_, activated)
                                   : kernels::activate_backward(dactivated, inner, activation_, activated);
  down_.weight_grad(dy, activated, context.queue);
  in_.weight_grad(dinner, context.saved.pop(), context.queue);
  return in_.input_grad(dinner);
}

}  // namespace ppctl
