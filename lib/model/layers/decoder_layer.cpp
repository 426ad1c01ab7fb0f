#include "model/layers/decoder_layer.hpp"

#include <utility>

#include "model/layers/moe.hpp"

namespace ppctl {

DecoderLayer::DecoderLayer(const DecoderLayerConfig& config, at::ScalarType dtype,
                           std::shared_ptr<const RotaryEmbedding> rope)
    : Layer(config.name, dtype),
      config_(config),
      attention_norm_(group_, config.attention_norm),
      attention_(group_, config.attention, std::move(rope)),
      feed_forward_norm_(group_, config.feed_forward_norm) {
  if (config.moe) {
    expert_group_ = std::make_unique<ParameterGroup>(config.moe->name, dtype, GroupKind::kExperts);
    feed_forward_ = std::make_unique<Moe>(group_, *expert_group_, *config.moe);
  } else {
    feed_forward_ = std::make_unique<Mlp>(group_, config.feed_forward);
  }
}

std::vector<ParameterGroup*> DecoderLayer::groups() {
  std::vector<ParameterGroup*> groups{&group_};
  if (expert_group_ != nullptr) groups.push_back(expert_group_.get());
  return groups;
}

bool DecoderLayer::trainable() const {
  return group_.trainable() || (expert_group_ != nullptr && expert_group_->trainable());
}

void DecoderLayer::bind() {
  attention_norm_.bind();
  attention_.bind();
  feed_forward_norm_.bind();
  feed_forward_->bind();
}

DecoderLayer::Drops DecoderLayer::drops(const Microbatch& microbatch, std::uint64_t seed) const {
  return {dropout_of(microbatch, config_.residual_dropout, config_.first_site, seed),
          dropout_of(microbatch, config_.residual_dropout, config_.first_site + 1, seed)};
}

at::Tensor DecoderLayer::forward(const at::Tensor& x, const ForwardContext& context) const {
  if (!config_.recompute.whole) return run(x, config_.recompute, context);
  context.save(x);
  return run(x, {}, context.without_saving());
}

at::Tensor DecoderLayer::attend(const at::Tensor& x, const ForwardContext& context) const {
  return attention_.forward(attention_norm_.forward(x, {}, context).y, context);
}

at::Tensor DecoderLayer::run(const at::Tensor& x, const RecomputeParts& recompute,
                             const ForwardContext& context) const {
  const Drops drop = drops(context.microbatch, context.seed);
  if (recompute.attention) context.save(x);
  const at::Tensor attended =
      attend(x, (recompute.attention ? context.without_saving() : context).for_output(/*wanted=*/true));
  if (drop.attention.active()) kernels::apply_dropout(drop.attention, attended);
  const ForwardContext second = recompute.feed_forward ? context.without_saving() : context;
  const Norm::Output normed = feed_forward_norm_.forward(x, attended, second);
  if (recompute.feed_forward) context.save(normed.sum);
  if (!drop.feed_forward.active()) return feed_forward_->forward(normed.y, normed.sum, second);
  at::Tensor added = feed_forward_->forward(normed.y, {}, second);
  if (!added.defined()) return {};
  kernels::apply_dropout(drop.feed_forward, added);
  return added.add_(normed.sum);
}

void DecoderLayer::recompute_feed_forward(const BackwardContext& context) const {
  const at::Tensor sum = context.saved.pop();
  const ForwardContext again = context.recompute().for_output(/*wanted=*/false);
  feed_forward_->forward(feed_forward_norm_.forward(sum, {}, again).y, {}, again);
}

at::Tensor DecoderLayer::backward(const at::Tensor& dy, const BackwardContext& context) const {
  const Drops drop = drops(context.microbatch, context.seed);
  const auto dropped = [](const kernels::Dropout& dropout, const at::Tensor& gradient) {
    if (!dropout.active()) return gradient;
    at::Tensor copy = gradient.clone();
    kernels::apply_dropout(dropout, copy);
    return copy;
  };
  const RecomputeParts& recompute = config_.recompute;
  const ForwardContext again = context.recompute().for_output(/*wanted=*/false);
  if (recompute.whole) run(context.saved.pop(), {}, again);
  if (recompute.feed_forward && !recompute.whole) recompute_feed_forward(context);
  const at::Tensor dnormed = feed_forward_->backward(dropped(drop.feed_forward, dy), context);
  const at::Tensor dsum = feed_forward_norm_.backward(dnormed, dy, context);
  if (recompute.attention && !recompute.whole) attend(context.saved.pop(), again);
  const at::Tensor dattention_input = attention_.backward(dropped(drop.attention, dsum), context);
  return attention_norm_.backward(dattention_input, dsum, context);
}

}  // namespace ppctl
