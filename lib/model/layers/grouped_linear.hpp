#pragma once

#include <cstdint>
#include <vector>

#include "arch/blueprint.hpp"
#include "model/layers/weight.hpp"
#include "model/weight_grad_queue.hpp"

namespace ppctl {

/// y = x W_e^T for rows sorted by expert, W_e the projection (or the merged ones) of each of several experts: one pass
/// over the experts, one matrix product for each that has rows. The weights are one buffer, [experts * out, in].
class GroupedLinear {
 public:
  /// Rows of each expert, in the order of the experts.
  using Counts = std::vector<std::int64_t>;

  /// `options.parts` belong to `num_experts` experts, as many to each.
  GroupedLinear(ParameterGroup& group, const LinearOptions& options, std::int64_t num_experts);
  void bind() { weight_.bind(); }

  /// x: [rows, in] -> [rows, out].
  at::Tensor forward(const at::Tensor& x, const Counts& counts) const;
  /// The gradient of x.
  at::Tensor input_grad(const at::Tensor& dy, const Counts& counts) const;
  /// Hands the gradient of the weights to the queue. An expert without rows gets none: it stays zero.
  void weight_grad(const at::Tensor& dy, const at::Tensor& x, Counts counts, WeightGradQueue& queue) const;

 private:
  at::Tensor weight_of(std::int64_t expert) const { return weight_.data().narrow(0, expert * out_, out_); }
  void accumulate(std::int64_t expert, const at::Tensor& dy, const at::Tensor& x) const;

  std::int64_t in_;
  std::int64_t out_;  ///< of one expert
  int parts_;         ///< of one expert
  Weight weight_;
};

}  // namespace ppctl
