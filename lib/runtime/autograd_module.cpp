#include "runtime/autograd_module.hpp"

#include <ATen/core/grad_mode.h>

#include <unordered_set>
#include <utility>

#include "base/error.hpp"
#include "runtime/swap_wrapper.hpp"
#include "runtime/weight_grad_split.hpp"

namespace ppctl {
namespace {

ParameterGroup& group_of(std::vector<std::unique_ptr<ParameterGroup>>& groups, at::ScalarType dtype) {
  for (const auto& group : groups) {
    if (group->dtype() == dtype) return *group;
  }
  groups.push_back(std::make_unique<ParameterGroup>(std::string(c10::toString(dtype)) + " parameters", dtype));
  return *groups.back();
}

Parameter describe(const NamedTensor& named) {
  Parameter parameter;
  parameter.name = named.name;
  parameter.shape = named.tensor.sizes().vec();
  parameter.numel = named.tensor.numel();
  parameter.trainable = named.tensor.requires_grad();
  parameter.matrix = named.tensor.dim() >= 2;
  return parameter;
}

}  // namespace

AutogradModule::AutogradModule(Forward forward, const std::vector<NamedTensor>& parameters, Loss loss)
    : forward_(std::move(forward)), loss_(std::move(loss)) {
  PPCTL_CHECK(forward_ != nullptr, "no forward function");
  adopt(parameters);
}

AutogradModule::AutogradModule(PlainForward forward, const std::vector<NamedTensor>& parameters, Loss loss)
    : AutogradModule(
          Forward([plain = std::move(forward)](const TensorList& inputs, const Microbatch&) { return plain(inputs); }),
          parameters, std::move(loss)) {}

void AutogradModule::adopt(const std::vector<NamedTensor>& parameters) {
  struct Place {
    at::Tensor leaf;
    ParameterGroup* group;
    int index;
  };
  std::vector<Place> places;
  std::unordered_set<const void*> seen;
  for (const NamedTensor& named : parameters) {
    if (!named.tensor.defined() || !named.tensor.is_leaf()) throw_error("parameter {} is no leaf tensor", named.name);
    if (!seen.insert(named.tensor.unsafeGetTensorImpl()).second) continue;  // one weight under two names
    ParameterGroup& group = group_of(groups_, named.tensor.scalar_type());
    places.push_back({named.tensor, &group, group.add(describe(named))});
  }
  for (const auto& group : groups_) group->allocate();
  for (const Place& place : places) {
    at::Tensor view = place.group->data(place.index);
    view.copy_(place.leaf.detach());
    place.leaf.set_data(view);
    if (place.leaf.requires_grad()) weights_.push_back({place.leaf, place.group->grad(place.index)});
  }
}

std::vector<ParameterGroup*> AutogradModule::parameter_groups() {
  std::vector<ParameterGroup*> groups;
  for (const auto& group : groups_) groups.push_back(group.get());
  return groups;
}

TensorList AutogradModule::to_leaves(TensorList inputs, bool training) {
  for (at::Tensor& input : inputs) {
    if (!input.defined()) continue;
    input = input.detach();
    if (training && input.is_floating_point()) input.requires_grad_(true);
  }
  return inputs;
}

at::Tensor AutogradModule::run_loss(const Microbatch& microbatch, const TensorList& outputs, LossReport* report) const {
  if (report == nullptr || loss_ == nullptr) return {};
  const LossValue value = loss_(outputs, microbatch);
  if (!value.sum.defined()) return {};
  report->loss_sum = value.sum.item<double>();
  report->num_labels = value.num_labels;
  at::Tensor objective = value.sum * microbatch.loss_scale;
  if (value.aux.defined()) {
    report->aux_loss = value.aux.item<double>();
    objective = objective + value.aux;
  }
  return objective;
}

TensorList AutogradModule::forward(const Microbatch& microbatch, TensorList inputs, SavedActivations& saved,
                                   LossReport* loss) {
  const at::AutoGradMode grad_mode(microbatch.training);
  const bool is_first = inputs.empty();
  // The first stage's inputs are data: nobody waits for their gradients.
  TensorList leaves = is_first ? microbatch.args : to_leaves(std::move(inputs), microbatch.training);
  const SavedTensorScope scope(saved);
  TensorList outputs = forward_(leaves, microbatch);
  if (is_first) leaves.clear();

  const at::Tensor objective = run_loss(microbatch, outputs, loss);
  if (microbatch.training) {
    if (loss != nullptr && !objective.defined()) throw_error("the last stage has no loss to train on");
    saved.extra = std::make_shared<Graph>(
        Graph{std::move(leaves), objective.defined() ? TensorList{objective} : outputs, objective.defined()});
  }
  if (objective.defined()) return {};
  for (at::Tensor& output : outputs) {
    if (output.defined()) output = output.detach();
  }
  return outputs;
}

TensorList AutogradModule::backward(const Microbatch& /*microbatch*/, TensorList output_grads, SavedActivations& saved,
                                    WeightGradQueue& queue) {
  const auto graph = std::any_cast<std::shared_ptr<Graph>>(std::move(saved.extra));
  saved.extra.reset();
  if (graph->is_objective) output_grads = {at::ones_like(graph->outputs[0])};
  output_grads.resize(graph->outputs.size());

  TensorList inputs;
  for (const at::Tensor& input : graph->inputs) {
    if (input.defined() && input.requires_grad()) inputs.push_back(input);
  }
  TensorList leaves;
  leaves.reserve(weights_.size());
  for (const Weight& weight : weights_) leaves.push_back(weight.leaf);

  TensorList grads;
  if (queue.defers()) {
    std::unique_ptr<WeightGradSplit> split;
    grads = WeightGradSplit::input_grads(graph->outputs, output_grads, inputs, leaves, split);
    queue.add([this, half = std::shared_ptr<WeightGradSplit>(std::move(split))] { accumulate(half->weight_grads()); });
  } else {
    TensorList both = inputs;
    both.insert(both.end(), leaves.begin(), leaves.end());
    grads = all_grads(graph->outputs, output_grads, both);
    accumulate({grads.begin() + static_cast<std::ptrdiff_t>(inputs.size()), grads.end()});
  }

  TensorList input_grads(graph->inputs.size());
  for (std::size_t i = 0, next = 0; i < graph->inputs.size(); ++i) {
    if (graph->inputs[i].defined() && graph->inputs[i].requires_grad()) input_grads[i] = grads[next++];
  }
  return input_grads;
}

void AutogradModule::accumulate(const TensorList& grads) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (grads[i].defined()) weights_[i].grad.add_(grads[i]);
  }
}

}  // namespace ppctl
