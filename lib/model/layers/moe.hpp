#pragma once

#include "model/kernels/routing.hpp"
#include "model/layers/feed_forward.hpp"
#include "model/layers/grouped_linear.hpp"

namespace ppctl {

/// A mixture of experts without a limit to what an expert takes; see MoeConfig. Rows are sorted by expert and within an
/// expert by token (over ranks: by rank first), whatever the number of ranks, so that sums have one order.
///
/// Where other ranks hold experts, ForwardContext and BackwardContext have the exchange that reaches them. The
/// gradients of the experts' weights are then those of the tokens of all ranks of the exchange.
class Moe : public FeedForward {
 public:
  /// `group` gets the router's weight, `experts` those of the experts that are held.
  Moe(ParameterGroup& group, ParameterGroup& experts, const MoeConfig& config);
  void bind() override;
  at::Tensor forward(const at::Tensor& x, const at::Tensor& residual, const ForwardContext& context) const override;
  at::Tensor backward(const at::Tensor& dy, const BackwardContext& context) const override;

 private:
  /// Rows on their way, or here already where all experts are.
  class Transfer;

  GroupedLinear::Counts rows_by_expert(const ExpertCounts& counts) const;

  std::int64_t num_experts_;
  std::int64_t num_held_;
  std::int64_t top_k_;
  bool renormalise_;
  kernels::Activation activation_;
  Linear router_;
  GroupedLinear gate_up_;
  GroupedLinear down_;
};

}  // namespace ppctl
