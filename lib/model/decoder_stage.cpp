#include "model/decoder_stage.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace ppctl {
namespace {

at::Tensor input_ids(const Microbatch& microbatch) {
  const auto found = microbatch.kwargs.find("input_ids");
  if (found != microbatch.kwargs.end()) return found->second.contiguous();
  PPCTL_CHECK(!microbatch.args.empty(), "the first stage has neither 'input_ids' nor a positional input");
  return microbatch.args[0].contiguous();
}

at::Tensor labels_of(const Microbatch& microbatch) {
  const auto found = microbatch.kwargs.find("labels");
  return found == microbatch.kwargs.end() ? at::Tensor() : found->second.contiguous();
}

}  // namespace

DecoderStage::DecoderStage(DecoderParts parts, std::uint64_t seed)
    : parts_(std::move(parts)), aux_loss_(parts_.aux_loss), seed_(seed) {
  for (std::size_t i = 0; i < parts_.layers.size(); ++i) {
    if (parts_.layers[i]->groups().size() > 1) last_with_experts_ = static_cast<int>(i);
  }
  for (ParameterGroup* group : parameter_groups()) group->allocate();
  if (parts_.embedding != nullptr) parts_.embedding->bind();
  for (const auto& layer : parts_.layers) layer->bind();
  if (parts_.head != nullptr) parts_.head->bind();
}

std::vector<ParameterGroup*> DecoderStage::parameter_groups() {
  std::vector<ParameterGroup*> groups;
  if (parts_.embedding != nullptr) groups.push_back(&parts_.embedding->group());
  for (const auto& layer : parts_.layers) {
    for (ParameterGroup* group : layer->groups()) groups.push_back(group);
  }
  if (parts_.head != nullptr) groups.push_back(&parts_.head->group());
  return groups;
}

int DecoderStage::lowest_needed() const {
  if (parts_.embedding == nullptr) return 0;
  if (parts_.embedding->trainable()) return -1;
  const int num_layers = static_cast<int>(parts_.layers.size());
  for (int i = 0; i < num_layers; ++i) {
    if (parts_.layers[i]->trainable()) return i;
  }
  return parts_.head != nullptr && parts_.head->group().trainable() ? num_layers : num_layers + 1;
}

bool DecoderStage::makes_aux_loss(const Microbatch& microbatch) const {
  return aux_loss_.active() && parts_.head != nullptr && labels_of(microbatch).defined();
}

TensorList DecoderStage::forward(const Microbatch& microbatch, TensorList inputs, SavedActivations& saved,
                                 LossReport* loss) {
  const int lowest = lowest_needed();
  // A copy: the tensor that came may be another's.
  const std::size_t num_inputs = aux_loss_.active() ? 2 : 1;
  PPCTL_CHECK(parts_.embedding != nullptr || inputs.size() == num_inputs, "{} inputs", inputs.size());
  at::Tensor sums;
  if (aux_loss_.active()) sums = inputs.size() == num_inputs ? inputs[1].clone() : aux_loss_.no_sums();
  const auto context = [&](int unit) {
    SavedActivations* kept = microbatch.training && unit >= lowest ? &saved : nullptr;
    return ForwardContext{microbatch, kept, seed_, /*recomputed=*/false, /*wants_output=*/true, experts_of(unit), sums};
  };
  at::Tensor x;
  if (parts_.embedding != nullptr) {
    x = parts_.embedding->forward(input_ids(microbatch), context(-1));
  } else {
    x = inputs[0].contiguous();
    inputs.clear();
  }
  const int num_layers = static_cast<int>(parts_.layers.size());
  for (int i = 0; i < num_layers; ++i) {
    const std::size_t begin = saved.tensors.size();
    x = parts_.layers[i]->forward(x, context(i));
    if (parts_.layers[i]->swaps()) saved.swapped.push_back({begin, saved.tensors.size()});
  }
  if (parts_.head == nullptr) return sums.defined() ? TensorList{x, sums} : TensorList{x};
  const at::Tensor logits = parts_.head->forward(x, labels_of(microbatch), context(num_layers), loss);
  if (makes_aux_loss(microbatch)) {
    const std::int64_t num_tokens = x.numel() / x.size(-1);
    if (loss != nullptr) loss->aux_loss = aux_loss_.value(sums, num_tokens);
    if (microbatch.training) saved.push(aux_loss_.gradient(sums, num_tokens, microbatch.aux_scale));
  }
  return logits.defined() ? TensorList{logits} : TensorList{};
}

TensorList DecoderStage::backward(const Microbatch& microbatch, TensorList output_grads, SavedActivations& saved,
                                  WeightGradQueue& queue) {
  at::Tensor router_grad;
  if (makes_aux_loss(microbatch)) router_grad = saved.pop();
  // A copy, so that what is received is let go of as soon as the other gradient is.
  if (output_grads.size() == 2) router_grad = output_grads[1].clone();
  const auto context = [&](int unit) {
    return BackwardContext{microbatch, saved, queue, seed_, experts_of(unit), router_grad};
  };
  const int lowest = lowest_needed();
  const int num_layers = static_cast<int>(parts_.layers.size());
  at::Tensor dx = output_grads.empty() ? at::Tensor() : output_grads[0].contiguous();
  output_grads.clear();
  if (parts_.head != nullptr && lowest <= num_layers) dx = parts_.head->backward(dx, context(num_layers));
  for (int i = num_layers - 1; i >= std::max(lowest, 0); --i) dx = parts_.layers[i]->backward(dx, context(i));
  if (parts_.embedding == nullptr) return router_grad.defined() ? TensorList{dx, router_grad} : TensorList{dx};
  if (lowest == -1) parts_.embedding->backward(dx, context(-1));
  return {};
}

}  // namespace ppctl
