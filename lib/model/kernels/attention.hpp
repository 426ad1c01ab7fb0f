#pragma once

#include "model/aten.hpp"

#include "model/kernels/dropout.hpp"
#include "model/kernels/rope.hpp"

namespace ppctl::kernels {

struct AttentionOptions {
  HeadLayout layout;
  double scale = 1.0;  ///< of the scores, e.g. 1 / sqrt(head_dim)
  bool causal = true;
  Dropout dropout;  ///< of the probabilities
};

struct AttentionOutput {
  at::Tensor out;          ///< [batch, sequence, heads * head_dim]
  at::Tensor log_sum_exp;  ///< [batch, heads, sequence], float32 (double for double): all that the backward needs of
                           ///< the scores
};

/// softmax(scale * q k^T) v for each head, straight on the merged `qkv` [batch, sequence, width]: no transposed copies
/// leave the function. Each key/value head serves heads / kv_heads consecutive query heads. One thread, and the result
/// of a sample does not depend on the batch around it. Scores are kept for 32 query rows at a time.
AttentionOutput attention(const at::Tensor& qkv, const AttentionOptions& options);

/// The gradient with respect to qkv. The scores are computed again from qkv and log_sum_exp (Dao et al.,
/// "FlashAttention", 2022, section 3.1).
at::Tensor attention_backward(const at::Tensor& dout, const at::Tensor& qkv, const AttentionOutput& forward,
                              const AttentionOptions& options);

}  // namespace ppctl::kernels
