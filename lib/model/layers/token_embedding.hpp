#pragma once

#include <string>

#include "model/layers/layer.hpp"
#include "model/layers/weight.hpp"

namespace ppctl {

/// Token ids to the first hidden state: a row of the token table, plus a row of the position table where the family has
/// learned positions, then dropout.
class TokenEmbedding {
 public:
  struct Config {
    at::ScalarType dtype = at::kFloat;
    std::string tokens;  ///< "model.embed_tokens"; ".weight" follows
    std::int64_t vocab_size = 0;
    std::int64_t hidden_size = 0;
    std::string positions;  ///< "transformer.wpe"; empty: no table
    std::int64_t max_positions = 0;
    double init_stddev = 0.02;
    double dropout = 0.0;
    std::uint32_t dropout_site = 0;
  };
  explicit TokenEmbedding(const Config& config);
  TokenEmbedding(const TokenEmbedding&) = delete;
  TokenEmbedding& operator=(const TokenEmbedding&) = delete;

  ParameterGroup& group() { return group_; }
  bool trainable() const;
  void bind();
  /// ids: int64 [batch, sequence]. Throws Error where an id or a position is outside of its table.
  at::Tensor forward(const at::Tensor& ids, const ForwardContext& context) const;
  void backward(const at::Tensor& dy, const BackwardContext& context) const;

 private:
  Config config_;
  ParameterGroup group_;
  Weight tokens_;
  Weight positions_;
};

}  // namespace ppctl
