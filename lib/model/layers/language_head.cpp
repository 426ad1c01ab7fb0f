#include "model/layers/language_head.hpp"

#include "model/kernels/cross_entropy.hpp"

namespace ppctl {

LanguageHead::LanguageHead(const LanguageHeadConfig& config, at::ScalarType dtype)
    : group_(config.projection.parts.at(0).name, dtype),
      norm_(group_, config.norm),
      projection_(group_, config.projection) {}

void LanguageHead::bind() {
  norm_.bind();
  projection_.bind();
}

at::Tensor LanguageHead::forward(const at::Tensor& x, const at::Tensor& labels, const ForwardContext& context,
                                 LossReport* loss) const {
  const at::Tensor normed = norm_.forward(x, {}, context).y;
  at::Tensor logits = projection_.forward(normed);
  context.save(normed);
  if (!labels.defined()) return logits;
  const double scale = context.microbatch.loss_scale;
  const kernels::TokenLosses losses =
      kernels::cross_entropy(logits, labels, context.saved != nullptr ? &scale : nullptr);
  if (loss != nullptr) {
    loss->loss_sum = losses.sum;
    loss->num_labels = losses.num_labels;
  }
  context.save(logits);
  return {};
}

at::Tensor LanguageHead::backward(const at::Tensor& dlogits, const BackwardContext& context) const {
  const at::Tensor gradient = dlogits.defined() ? dlogits : context.saved.pop();
  projection_.weight_grad(gradient, context.saved.pop(), context.queue);
  return norm_.backward(projection_.input_grad(gradient), {}, context);
}

}  // namespace ppctl
