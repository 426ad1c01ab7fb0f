#pragma once

#include <cstdint>
#include <vector>

#include "model/aten.hpp"

namespace ppctl::kernels {

/// Which experts each token goes to.
struct Routing {
  at::Tensor probabilities;  ///< [tokens, experts], in the accumulator dtype: softmax over all experts
  at::Tensor experts;        ///< int64, [tokens, k], the likeliest first; of equals the one with the lower number
  at::Tensor weights;  ///< [tokens, k], in the accumulator dtype: the probabilities of these, perhaps renormalised
};

/// From the router's outputs, [tokens, experts]. With `renormalise` a token's weights are divided by their sum.
Routing route(const at::Tensor& logits, std::int64_t k, bool renormalise);
/// The gradient of the logits, in `dtype`, from those of the weights, [tokens, k], and, where it is defined, one that
/// is added to the gradients of all probabilities of an expert: float64, [experts].
at::Tensor route_backward(const at::Tensor& dweights, const at::Tensor& added, const Routing& routing, bool renormalise,
                          at::ScalarType dtype);

/// Adds to `sums` (float64, [2, experts]) how many tokens chose each expert, and the sum of its probabilities.
void add_router_sums(const Routing& routing, const at::Tensor& sums);

/// Rows in the order "routed": one for each token and choice, sorted by expert and within an expert by token.
struct RowOrder {
  std::int64_t num_tokens = 0;
  std::int64_t k = 0;
  std::vector<std::int64_t> counts;  ///< rows of each expert
  std::vector<std::int64_t> row_of;  ///< [tokens, k]: which row a choice is
};
RowOrder sort_by_expert(const at::Tensor& experts, std::int64_t num_experts);

/// The rows of x, [tokens, width], in that order: [tokens * k, width].
at::Tensor gather_routed(const at::Tensor& x, const RowOrder& order);
/// y[t] = residual[t] + sum over the choices j of t of weights[t][j] * rows[row_of(t, j)], in the order of j. An
/// undefined residual counts as zero.
at::Tensor combine_routed(const at::Tensor& rows, const at::Tensor& weights, const RowOrder& order,
                          const at::Tensor& residual);

struct CombineGrads {
  at::Tensor rows;     ///< [tokens * k, width]
  at::Tensor weights;  ///< [tokens, k]
};
CombineGrads combine_routed_backward(const at::Tensor& dy, const at::Tensor& rows, const at::Tensor& weights,
                                     const RowOrder& order);
/// dx[t] += the sum of the rows of t's choices.
void add_routed(const at::Tensor& dx, const at::Tensor& rows, const RowOrder& order);

}  // namespace ppctl::kernels
