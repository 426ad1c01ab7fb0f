#include "runtime/pipeline_stage.hpp"

#include <array>
#include <utility>

#include "base/error.hpp"

namespace ppctl {

PipelineStage::PipelineStage(std::shared_ptr<StageModule> module, int stage_index, int num_stages)
    : module_(std::move(module)), stage_index_(stage_index), num_stages_(num_stages) {
  PPCTL_CHECK(module_ != nullptr, "stage {} has no module", stage_index);
  PPCTL_CHECK(stage_index >= 0 && stage_index < num_stages, "stage {} of {}", stage_index, num_stages);
}

void PipelineStage::begin_step(std::span<const Microbatch> microbatches) {
  microbatches_ = microbatches;
  saved_.clear();
  saved_.resize(microbatches.size());
  boundary_.clear();
  boundary_.resize(microbatches.size());
  losses_.assign(microbatches.size(), LossReport());
  progress_.assign(microbatches.size(), Progress::kNotSeen);
  queue_.clear();
}

void PipelineStage::end_step() {
  for (std::size_t i = 0; i < microbatches_.size(); ++i) {
    const bool training = microbatches_[i].training;
    PPCTL_CHECK(progress_[i] != Progress::kInputGradDone,
                "stage {}, microbatch {}, step {}: weight gradients are still queued at the end of the step",
                stage_index_, i, microbatches_[i].step);
    PPCTL_CHECK(!training || progress_[i] != Progress::kForwardDone,
                "stage {}, microbatch {}, step {}: the step ends without its backward", stage_index_, i,
                microbatches_[i].step);
    PPCTL_CHECK(saved_[i].tensors.empty() && saved_[i].integers.empty() && !saved_[i].extra.has_value(),
                "stage {}, microbatch {}, step {}: {} saved tensors are left at the end of the step", stage_index_, i,
                microbatches_[i].step, saved_[i].tensors.size());
  }
  PPCTL_CHECK(queue_.empty(), "stage {}, step {}: {} microbatches' weight gradients are still queued", stage_index_,
              microbatches_.empty() ? 0 : microbatches_[0].step, queue_.size());
}

void PipelineStage::advance(int microbatch, Progress from, Progress to, const char* what) {
  const auto i = static_cast<std::size_t>(microbatch);
  PPCTL_CHECK(i < progress_.size(), "stage {}: {} of microbatch {} of {}", stage_index_, what, microbatch,
              progress_.size());
  constexpr std::array<const char*, 4> kNames = {"nothing", "the forward", "BACKWARD_INPUT", "the whole backward"};
  PPCTL_CHECK(progress_[i] == from, "stage {}, microbatch {}, step {}: {} after {}, not after {}", stage_index_,
              microbatch, microbatches_[i].step, what, kNames[static_cast<std::size_t>(progress_[i])],
              kNames[static_cast<std::size_t>(from)]);
  progress_[i] = to;
}

TensorList PipelineStage::forward(int microbatch, TensorList inputs) {
  advance(microbatch, Progress::kNotSeen, Progress::kForwardDone, "forward");
  const auto i = static_cast<std::size_t>(microbatch);
  const auto note_boundary = [&boundary = boundary_[i]](const TensorList& tensors) {
    for (const at::Tensor& tensor : tensors) {
      if (tensor.defined() && tensor.has_storage()) boundary.insert(tensor.storage().unsafeGetStorageImpl());
    }
  };
  note_boundary(inputs);
  TensorList outputs =
      module_->forward(microbatches_[i], std::move(inputs), saved_[i], is_last() ? &losses_[i] : nullptr);
  note_boundary(outputs);
  return outputs;
}

TensorList PipelineStage::run_backward(int microbatch, TensorList output_grads, bool defer_weights) {
  const auto i = static_cast<std::size_t>(microbatch);
  queue_.begin_microbatch(microbatch, defer_weights);
  TensorList input_grads = module_->backward(microbatches_[i], std::move(output_grads), saved_[i], queue_);
  queue_.end_microbatch();
  saved_[i] = SavedActivations();
  return input_grads;
}

TensorList PipelineStage::backward(int microbatch, TensorList output_grads) {
  advance(microbatch, Progress::kForwardDone, Progress::kDone, "backward");
  return run_backward(microbatch, std::move(output_grads), false);
}

TensorList PipelineStage::backward_input(int microbatch, TensorList output_grads) {
  advance(microbatch, Progress::kForwardDone, Progress::kInputGradDone, "BACKWARD_INPUT");
  return run_backward(microbatch, std::move(output_grads), true);
}

void PipelineStage::backward_weight(int microbatch) {
  advance(microbatch, Progress::kInputGradDone, Progress::kDone, "BACKWARD_WEIGHT");
  queue_.drain(microbatch);
}

}  // namespace ppctl
