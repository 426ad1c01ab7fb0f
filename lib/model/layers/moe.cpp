#include "model/layers/moe.hpp"

#include <utility>

#include "base/error.hpp"

namespace ppctl {
namespace {

at::Tensor to_tensor(const std::vector<std::int64_t>& values) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), tensor.mutable_data_ptr<std::int64_t>());
  return tensor;
}

std::vector<std::int64_t> to_vector(const at::Tensor& tensor) {
  const auto* values = tensor.const_data_ptr<std::int64_t>();
  return {values, values + tensor.numel()};
}

}  // namespace

class Moe::Transfer {
 public:
  Transfer(const ExpertAccess& access, bool recomputed, ExpertTransfer::Operation operation, at::Tensor rows,
           ExpertCounts counts) {
    if (access.exchange != nullptr) {
      pending_ =
          access.exchange->start({operation, access.is_last_layer, recomputed, std::move(rows), std::move(counts)});
      return;
    }
    if (counts.held.empty()) counts.held = counts.routed;
    here_ = {std::move(rows), std::move(counts)};
  }

  ExpertRows wait() { return pending_ != nullptr ? pending_->wait() : std::move(here_); }

 private:
  std::unique_ptr<PendingExchange> pending_;
  ExpertRows here_;
};

Moe::Moe(ParameterGroup& group, ParameterGroup& experts, const MoeConfig& config)
    : num_experts_(config.num_experts),
      num_held_(config.num_held),
      top_k_(config.top_k),
      renormalise_(config.renormalise),
      activation_(config.activation),
      router_(group, config.router),
      gate_up_(experts, config.gate_up, config.num_held),
      down_(experts, config.down, config.num_held) {}

void Moe::bind() {
  router_.bind();
  gate_up_.bind();
  down_.bind();
}

GroupedLinear::Counts Moe::rows_by_expert(const ExpertCounts& counts) const {
  GroupedLinear::Counts sums(static_cast<std::size_t>(num_held_), 0);
  for (std::size_t i = 0; i < counts.held.size(); ++i) sums[i % sums.size()] += counts.held[i];
  return sums;
}

at::Tensor Moe::forward(const at::Tensor& x, const at::Tensor& residual, const ForwardContext& context) const {
  using Operation = ExpertTransfer::Operation;
  PPCTL_CHECK(num_held_ == num_experts_ || context.experts.exchange != nullptr,
              "{} of {} experts are here, and no way to the others", num_held_, num_experts_);
  const at::Tensor tokens = x.view({-1, x.size(-1)});
  const kernels::Routing routing = kernels::route(router_.forward(tokens), top_k_, renormalise_);
  const kernels::RowOrder order = kernels::sort_by_expert(routing.experts, num_experts_);
  if (context.router_sums.defined()) kernels::add_router_sums(routing, context.router_sums);
  const ExpertRows held = Transfer(context.experts, context.recomputed, Operation::kDispatch,
                                   kernels::gather_routed(tokens, order), {order.counts, {}})
                              .wait();
  const GroupedLinear::Counts counts = rows_by_expert(held.counts);
  const at::Tensor inner = gate_up_.forward(held.rows, counts);
  Transfer combine(context.experts, context.recomputed, Operation::kCombine,
                   down_.forward(kernels::gate(inner, activation_), counts), held.counts);
  for (const at::Tensor& tensor : {tokens, routing.probabilities, routing.experts, routing.weights, held.rows, inner}) {
    context.save(tensor);
  }
  if (context.experts.exchange != nullptr) context.save(to_tensor(held.counts.held));
  const at::Tensor routed = combine.wait().rows;
  context.save(routed);
  if (!context.wants_output) return {};
  return kernels::combine_routed(routed, routing.weights, order, residual).view(x.sizes());
}

at::Tensor Moe::backward(const at::Tensor& dy, const BackwardContext& context) const {
  using Operation = ExpertTransfer::Operation;
  const bool travels = context.experts.exchange != nullptr;
  at::Tensor routed = context.saved.pop();
  const at::Tensor held_counts = travels ? context.saved.pop() : at::Tensor();
  const at::Tensor inner = context.saved.pop();
  const at::Tensor rows = context.saved.pop();
  kernels::Routing routing;
  routing.weights = context.saved.pop();
  routing.experts = context.saved.pop();
  routing.probabilities = context.saved.pop();
  const at::Tensor tokens = context.saved.pop();
  const kernels::RowOrder order = kernels::sort_by_expert(routing.experts, num_experts_);
  const ExpertCounts transfer_counts{order.counts, travels ? to_vector(held_counts) : order.counts};

  kernels::CombineGrads grads =
      kernels::combine_routed_backward(dy.view(tokens.sizes()), routed, routing.weights, order);
  routed = at::Tensor();
  Transfer combine(context.experts, /*recomputed=*/false, Operation::kCombineBackward, std::move(grads.rows),
                   transfer_counts);
  const at::Tensor dlogits =
      kernels::route_backward(grads.weights, context.router_grad, routing, renormalise_, dy.scalar_type());
  at::Tensor dx = router_.input_grad(dlogits);
  router_.weight_grad(dlogits, tokens, context.queue);

  const at::Tensor dout = combine.wait().rows;
  const GroupedLinear::Counts counts = rows_by_expert(transfer_counts);
  const at::Tensor dactivated = down_.input_grad(dout, counts);
  const at::Tensor activated = at::empty(dactivated.sizes(), dactivated.options());
  const at::Tensor dinner = kernels::gate_backward(dactivated, inner, activation_, activated);
  Transfer dispatch(context.experts, /*recomputed=*/false, Operation::kDispatchBackward,
                    gate_up_.input_grad(dinner, counts), transfer_counts);
  down_.weight_grad(dout, activated, counts, context.queue);
  gate_up_.weight_grad(dinner, rows, counts, context.queue);
  kernels::add_routed(dx, dispatch.wait().rows, order);
  return dx.view(dy.sizes());
}

}  // namespace ppctl
