#pragma once

#include "arch/blueprint.hpp"
#include "model/layers/layer.hpp"
#include "model/layers/weight.hpp"

namespace ppctl {

/// Token ids to the first hidden state: a row of the token table, plus a row of the position table where the family has
/// learned positions, then dropout.
class TokenEmbedding {
 public:
  TokenEmbedding(const TokenEmbeddingConfig& config, at::ScalarType dtype);
  TokenEmbedding(const TokenEmbedding&) = delete;
  TokenEmbedding& operator=(const TokenEmbedding&) = delete;

  ParameterGroup& group() { return group_; }
  bool trainable() const;
  void bind();
  /// ids: int64 [batch, sequence]. Throws Error where an id or a position is outside of its table.
  at::Tensor forward(const at::Tensor& ids, const ForwardContext& context) const;
  void backward(const at::Tensor& dy, const BackwardContext& context) const;

 private:
  TokenEmbeddingConfig config_;
  ParameterGroup group_;
  Weight tokens_;
  Weight positions_;
};

}  // namespace ppctl
