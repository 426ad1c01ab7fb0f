#include "model/layers/decoder_layer.hpp"

#include <utility>

namespace ppctl {

DecoderLayer::DecoderLayer(const DecoderLayerConfig& config, at::ScalarType dtype,
                           std::shared_ptr<const RotaryEmbedding> rope)
    : Layer(config.name, dtype),
      config_(config),
      attention_norm_(group_, config.attention_norm),
      attention_(group_, config.attention, std::move(rope)),
      feed_forward_norm_(group_, config.feed_forward_norm),
      feed_forward_(std::make_unique<Mlp>(group_, config.feed_forward)) {}

void DecoderLayer::bind() {
  attention_norm_.bind();
  attention_.bind();
  feed_forward_norm_.bind();
  feed_forward_->bind();
}

at::Tensor DecoderLayer::forward(const at::Tensor& x, const ForwardContext& context) const {
  const kernels::Dropout first =
      dropout_of(context.microbatch, config_.residual_dropout, config_.first_site, context.seed);
  const kernels::Dropout second =
      dropout_of(context.microbatch, config_.residual_dropout, config_.first_site + 1, context.seed);
  const at::Tensor attended = attention_.forward(attention_norm_.forward(x, {}, context).y, context);
  if (first.active()) kernels::apply_dropout(first, attended);
  const Norm::Output normed = feed_forward_norm_.forward(x, attended, context);
  if (!second.active()) return feed_forward_->forward(normed.y, normed.sum, context);
  at::Tensor added = feed_forward_->forward(normed.y, {}, context);
  kernels::apply_dropout(second, added);
  return added.add_(normed.sum);
}

at::Tensor DecoderLayer::backward(const at::Tensor& dy, const BackwardContext& context) const {
  const kernels::Dropout first =
      dropout_of(context.microbatch, config_.residual_dropout, config_.first_site, context.seed);
  const kernels::Dropout second =
      dropout_of(context.microbatch, config_.residual_dropout, config_.first_site + 1, context.seed);
  const auto dropped = [](const kernels::Dropout& dropout, const at::Tensor& gradient) {
    if (!dropout.active()) return gradient;
    at::Tensor copy = gradient.clone();
    kernels::apply_dropout(dropout, copy);
    return copy;
  };
  const at::Tensor dnormed = feed_forward_->backward(dropped(second, dy), context);
  const at::Tensor dsum = feed_forward_norm_.backward(dnormed, dy, context);
  const at::Tensor dattention_input = attention_.backward(dropped(first, dsum), context);
  return attention_norm_.backward(dattention_input, dsum, context);
}

}  // namespace ppctl
