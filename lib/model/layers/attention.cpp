#include "model/layers/attention.hpp"

#include <utility>

#include "arch/declare.hpp"
namespace ppctl {
at::Tensor position_ids(const Microbatch& microbatch) {
  const auto found = microbatch.kwargs.find("position_ids");
  return found == microbatch.kwargs.end() ? at::Tensor() : found->second;
}

kernels::Dropout dropout_of(const Microbatch& microbatch, double probability, std::uint32_t site, std::uint64_t seed) {
  return {microbatch.training ? probability : 0.0, seed, microbatch.step, site, microbatch.first_sample};
}

Attention::Attention(ParameterGroup& group, AttentionConfig config, std::shared_ptr<const RotaryEmbedding> rope)
    : config_(std::move(config)),
      rope_(config_.rotary ? std::move(rope) : nullptr),
      qkv_(group, config_.qkv),
      output_(group, config_.output) {
  if (config_.has_head_norm()) {
    query_norm_ = Weight(group, {norm_weight(config_.query_norm, config_.heads.head_dim)});
    key_norm_ = Weight(group, {norm_weight(config_.key_norm, config_.heads.head_dim)});
  }
}

void Attention::bind() {
  qkv_.bind();
  output_.bind();
  query_norm_.bind();
  key_norm_.bind();
}

kernels::AttentionOptions Attention::options(const Microbatch& microbatch, std::uint64_t seed) const {
  return {config_.heads, config_.scale, config_.causal,
          dropout_of(microbatch, config_.dropout, config_.dropout_site, seed)};
}

Attention::Rotation Attention::rotation(const Microbatch& microbatch, std::int64_t sequence) const {
  const at::Tensor positions = position_ids(microbatch);
  const std::int64_t length = positions.defined() ? positions.max().item<std::int64_t>() + 1 : sequence;
  return {rope_->tables(length), positions};
}

at::Tensor Attention::forward(const at::Tensor& x, const ForwardContext& context) const {
  context.save(x);
  at::Tensor qkv = qkv_.forward(x);
  if (query_norm_.declared()) {
    at::Tensor statistics;
    context.save(qkv);
    qkv = kernels::norm_heads(qkv, config_.heads, query_norm_.data(), key_norm_.data(), config_.norm_eps, statistics);
    context.save(statistics);
  }
  if (rope_ != nullptr) {
    const Rotation by = rotation(context.microbatch, x.size(1));
    kernels::rotate(qkv, config_.heads, by.tables->cos, by.tables->sin, by.positions);
  }
  const kernels::AttentionOutput attended = kernels::attention(qkv, options(context.microbatch, context.seed));
  context.save(qkv);
  context.save(attended.out);
  context.save(attended.log_sum_exp);
  if (!context.wants_output) return {};
  return output_.forward(attended.out);
}

at::Tensor Attention::backward(const at::Tensor& dy, const BackwardContext& context) const {
  kernels::AttentionOutput attended;
  attended.log_sum_exp = context.saved.pop();
  attended.out = context.saved.pop();
  const at::Tensor qkv = context.saved.pop();
  output_.weight_grad(dy, attended.out, context.queue);
  const at::Tensor dqkv =
      kernels::attention_backward(output_.input_grad(dy), qkv, attended, options(context.microbatch, context.seed));
  if (rope_ != nullptr) {
    const Rotation by = rotation(context.microbatch, dy.size(1));
    kernels::rotate_backward(dqkv, config_.heads, by.tables->cos, by.tables->sin, by.positions);
  }
  if (query_norm_.declared()) {
    const at::Tensor statistics = context.saved.pop();
    const at::Tensor raw = context.saved.pop();
    kernels::norm_heads_backward(dqkv, raw, statistics, config_.heads, query_norm_.data(), key_norm_.data(),
                                 query_norm_.wanted_grad(context.queue), key_norm_.wanted_grad(context.queue));
  }
  qkv_.weight_grad(dqkv, context.saved.pop(), context.queue);
  return qkv_.input_grad(dqkv);
}

}  // namespace ppctl
