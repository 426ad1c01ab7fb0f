#include "model/layers/token_embedding.hpp"

#include "arch/declare.hpp"
#include "base/error.hpp"
#include "model/kernels/embedding.hpp"
#include "model/layers/attention.hpp"

namespace ppctl {
namespace {

/// The position of every token of a microbatch, [batch, sequence].
at::Tensor positions_of(const Microbatch& microbatch, const at::Tensor& ids) {
  const at::Tensor given = position_ids(microbatch);
  return given.defined() ? given : at::arange(ids.size(1)).expand(ids.sizes()).contiguous();
}

}  // namespace

TokenEmbedding::TokenEmbedding(const TokenEmbeddingConfig& config, at::ScalarType dtype)
    : config_(config), group_(config.tokens, dtype) {
  tokens_ = Weight(group_, {table_weight(config.tokens, config.vocab_size, config.hidden_size, config.init_stddev)});
  if (!config.positions.empty()) {
    positions_ =
        Weight(group_, {table_weight(config.positions, config.max_positions, config.hidden_size, config.init_stddev)});
  }
}

bool TokenEmbedding::trainable() const {
  return tokens_.any_trainable() || (positions_.declared() && positions_.any_trainable());
}

void TokenEmbedding::bind() {
  tokens_.bind();
  positions_.bind();
}

at::Tensor TokenEmbedding::forward(const at::Tensor& ids, const ForwardContext& context) const {
  at::Tensor x = kernels::gather_rows(tokens_.data(), ids);
  if (positions_.declared()) {
    if (!position_ids(context.microbatch).defined() && ids.size(1) > config_.max_positions) {
      throw_error("a sequence of {} tokens is longer than the model's {} positions", ids.size(1),
                  config_.max_positions);
    }
    x.add_(kernels::gather_rows(positions_.data(), positions_of(context.microbatch, ids)));
  }
  const kernels::Dropout dropout = dropout_of(context.microbatch, config_.dropout, config_.dropout_site, context.seed);
  if (dropout.active()) kernels::apply_dropout(dropout, x);
  context.save(ids);
  return x;
}

void TokenEmbedding::backward(const at::Tensor& dy, const BackwardContext& context) const {
  const at::Tensor ids = context.saved.pop();
  const kernels::Dropout dropout = dropout_of(context.microbatch, config_.dropout, config_.dropout_site, context.seed);
  at::Tensor dx = dy;
  if (dropout.active()) {
    dx = dy.clone();
    kernels::apply_dropout(dropout, dx);
  }
  const at::Tensor positions = positions_.declared() ? positions_of(context.microbatch, ids) : at::Tensor();
  context.queue.add([this, ids, positions, dx] {
    if (tokens_.any_trainable()) kernels::scatter_add_rows(tokens_.grad(), ids, dx);
    if (positions_.declared() && positions_.any_trainable()) {
      kernels::scatter_add_rows(positions_.grad(), positions, dx);
    }
  });
}

}  // namespace ppctl
