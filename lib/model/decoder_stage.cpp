#include "model/decoder_stage.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "model/layers/image_merge.hpp"

namespace ppctl {
namespace {

/// What somebody else loaded, or the microbatch's own; none are no images.
at::Tensor pixels_of(const PatchEmbedding& patches, const Microbatch& microbatch, const TensorList& inputs) {
  if (!inputs.empty()) return inputs[0];
  const auto found = microbatch.kwargs.find("pixel_values");
  return found == microbatch.kwargs.end() ? patches.no_pixels() : found->second;
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
  if (parts_.patches != nullptr) parts_.patches->bind();
  for (const auto& layer : parts_.layers) layer->bind();
  if (parts_.head != nullptr) parts_.head->bind();
}

std::vector<ParameterGroup*> DecoderStage::parameter_groups() {
  std::vector<ParameterGroup*> groups;
  if (parts_.embedding != nullptr) groups.push_back(&parts_.embedding->group());
  if (parts_.patches != nullptr) groups.push_back(&parts_.patches->group());
  if (parts_.unused != nullptr) groups.push_back(parts_.unused.get());
  for (const auto& layer : parts_.layers) {
    for (ParameterGroup* group : layer->groups()) groups.push_back(group);
  }
  if (parts_.head != nullptr) groups.push_back(&parts_.head->group());
  return groups;
}

bool DecoderStage::source_trainable() const {
  return parts_.embedding != nullptr ? parts_.embedding->trainable() : parts_.patches->trainable();
}

at::Tensor DecoderStage::run_source(const Microbatch& microbatch, const TensorList& inputs,
                                    const ForwardContext& context) const {
  if (parts_.embedding != nullptr) return parts_.embedding->forward(input_ids(microbatch), context);
  return parts_.patches->forward(pixels_of(*parts_.patches, microbatch, inputs), context);
}

int DecoderStage::lowest_needed() const {
  if (!has_source() && parts_.needs_input_grad) return 0;
  if (has_source() && source_trainable()) return -1;
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
  PPCTL_CHECK(has_source() || inputs.size() == num_inputs, "{} inputs", inputs.size());
  at::Tensor sums;
  if (aux_loss_.active()) sums = inputs.size() == num_inputs ? inputs[1].clone() : aux_loss_.no_sums();
  const auto context = [&](int unit) {
    SavedActivations* kept = microbatch.training && unit >= lowest ? &saved : nullptr;
    return ForwardContext{microbatch, kept, seed_, /*recomputed=*/false, /*wants_output=*/true, experts_of(unit), sums};
  };
  at::Tensor x;
  if (has_source()) {
    x = run_source(microbatch, inputs, context(-1));
    inputs.clear();
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
  // Undefined where the next stage needs nothing of what is before it.
  at::Tensor dx = output_grads.empty() || !output_grads[0].defined() ? at::Tensor() : output_grads[0].contiguous();
  output_grads.clear();
  if (parts_.head != nullptr && lowest <= num_layers) dx = parts_.head->backward(dx, context(num_layers));
  for (int i = num_layers - 1; i >= std::max(lowest, 0); --i) dx = parts_.layers[i]->backward(dx, context(i));
  if (!has_source()) {
    if (!parts_.needs_input_grad) dx = at::Tensor();
    return router_grad.defined() ? TensorList{dx, router_grad} : TensorList{dx};
  }
  if (lowest == -1) {
    parts_.embedding != nullptr ? parts_.embedding->backward(dx, context(-1))
                                : parts_.patches->backward(dx, context(-1));
  }
  return {};
}

}  // namespace ppctl
