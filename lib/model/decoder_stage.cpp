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

DecoderStage::DecoderStage(DecoderParts parts, std::uint64_t seed) : parts_(std::move(parts)), seed_(seed) {
  for (ParameterGroup* group : parameter_groups()) group->allocate();
  if (parts_.embedding != nullptr) parts_.embedding->bind();
  for (const auto& layer : parts_.layers) layer->bind();
  if (parts_.head != nullptr) parts_.head->bind();
}

std::vector<ParameterGroup*> DecoderStage::parameter_groups() {
  std::vector<ParameterGroup*> groups;
  if (parts_.embedding != nullptr) groups.push_back(&parts_.embedding->group());
  for (const auto& layer : parts_.layers) groups.push_back(&layer->group());
  if (parts_.head != nullptr) groups.push_back(&parts_.head->group());
  return groups;
}

int DecoderStage::lowest_needed() const {
  if (parts_.embedding == nullptr) return 0;
  if (parts_.embedding->trainable()) return -1;
  const int num_layers = static_cast<int>(parts_.layers.size());
  for (int i = 0; i < num_layers; ++i) {
    if (parts_.layers[i]->group().trainable()) return i;
  }
  return parts_.head != nullptr && parts_.head->group().trainable() ? num_layers : num_layers + 1;
}

TensorList DecoderStage::forward(const Microbatch& microbatch, TensorList inputs, SavedActivations& saved,
                                 LossReport* loss) {
  const int lowest = lowest_needed();
  const auto context = [&](int unit) {
    return ForwardContext{microbatch, microbatch.training && unit >= lowest ? &saved : nullptr, seed_};
  };
  at::Tensor x;
  if (parts_.embedding != nullptr) {
    x = parts_.embedding->forward(input_ids(microbatch), context(-1));
  } else {
    PPCTL_CHECK(inputs.size() == 1, "{} inputs", inputs.size());
    x = inputs[0].contiguous();
    inputs.clear();
  }
  const int num_layers = static_cast<int>(parts_.layers.size());
  for (int i = 0; i < num_layers; ++i) x = parts_.layers[i]->forward(x, context(i));
  if (parts_.head == nullptr) return {x};
  const at::Tensor logits = parts_.head->forward(x, labels_of(microbatch), context(num_layers), loss);
  return logits.defined() ? TensorList{logits} : TensorList{};
}

TensorList DecoderStage::backward(const Microbatch& microbatch, TensorList output_grads, SavedActivations& saved,
                                  WeightGradQueue& queue) {
  const BackwardContext context{microbatch, saved, queue, seed_};
  const int lowest = lowest_needed();
  const int num_layers = static_cast<int>(parts_.layers.size());
  at::Tensor dx = output_grads.empty() ? at::Tensor() : output_grads[0].contiguous();
  output_grads.clear();
  if (parts_.head != nullptr && lowest <= num_layers) dx = parts_.head->backward(dx, context);
  for (int i = num_layers - 1; i >= std::max(lowest, 0); --i) dx = parts_.layers[i]->backward(dx, context);
  if (parts_.embedding == nullptr) return {dx};
  if (lowest == -1) parts_.embedding->backward(dx, context);
  return {};
}

}  // namespace ppctl
