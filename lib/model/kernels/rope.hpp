#pragma once

#include "model/aten.hpp"

#include "arch/blueprint.hpp"

namespace ppctl::kernels {

using ppctl::HeadLayout;

/// Rotates queries and keys of `qkv` in place: (a, b) -> (a cos - b sin, b cos + a sin) with a and b the halves of a
/// head. `cos` and `sin` are float32 [positions, head_dim / 2]. `positions` (int64, one a token) may be undefined: then
/// token t of a sequence has position t. qkv: [batch, sequence, width].
void rotate(const at::Tensor& qkv, const HeadLayout& layout, const at::Tensor& cos, const at::Tensor& sin,
            const at::Tensor& positions);
/// The transposed rotation, which is the gradient.
void rotate_backward(const at::Tensor& dqkv, const HeadLayout& layout, const at::Tensor& cos, const at::Tensor& sin,
                     const at::Tensor& positions);

/// RMSNorm of every query and key head by itself; values are copied. `statistics` gets 1 / rms, [tokens, heads +
/// kv_heads].
at::Tensor norm_heads(const at::Tensor& qkv, const HeadLayout& layout, const at::Tensor& query_weight,
                      const at::Tensor& key_weight, double eps, at::Tensor& statistics);
/// Turns the gradient of the result into that of `qkv`, in place. Weight gradients are added to where they are defined.
void norm_heads_backward(const at::Tensor& dqkv, const at::Tensor& qkv, const at::Tensor& statistics,
                         const HeadLayout& layout, const at::Tensor& query_weight, const at::Tensor& key_weight,
                         const at::Tensor& query_weight_grad, const at::Tensor& key_weight_grad);

}  // namespace ppctl::kernels
