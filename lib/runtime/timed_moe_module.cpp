#include "runtime/timed_moe_module.hpp"

#include <utility>

namespace ppctl {

void TimedUnit::compute(double ms) {
  const std::lock_guard lock(mutex_);
  const Nanoseconds start = monotonic_now();
  sleeper_.sleep_until(start + static_cast<Nanoseconds>(ms * 1e6));
  spans_.push_back({start, monotonic_now()});
}

std::vector<TimedUnit::Span> TimedUnit::take_spans() {
  const std::lock_guard lock(mutex_);
  return std::exchange(spans_, {});
}

TimedMoeModule::TimedMoeModule(std::vector<TimedLayer> layers, TimedUnit& unit, ExpertExchange& exchange,
                               at::Tensor rows, std::int64_t output_elements, bool is_last)
    : layers_(std::move(layers)),
      unit_(unit),
      exchange_(exchange),
      rows_(std::move(rows)),
      output_(at::zeros({output_elements}, at::kFloat)),
      is_last_(is_last) {}

void TimedMoeModule::exchange(ExpertTransfer::Operation operation, bool is_last_layer) {
  ExpertTransfer transfer;
  transfer.operation = operation;
  transfer.is_last_layer = is_last_layer;
  transfer.rows = rows_;
  exchange_.start(std::move(transfer))->wait();
}

TensorList TimedMoeModule::forward(const Microbatch& microbatch, TensorList /*inputs*/, SavedActivations& saved,
                                   LossReport* loss) {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const bool is_last_layer = i + 1 == layers_.size();
    unit_.compute(layers_[i].attention_ms);
    exchange(ExpertTransfer::Operation::kDispatch, is_last_layer);
    unit_.compute(layers_[i].experts_ms);
    exchange(ExpertTransfer::Operation::kCombine, is_last_layer);
  }
  if (microbatch.training) saved.push(output_);
  if (loss != nullptr) loss->num_labels = 1;
  return is_last_ ? TensorList{} : TensorList{output_};
}

TensorList TimedMoeModule::backward(const Microbatch& /*microbatch*/, TensorList /*output_grads*/,
                                    SavedActivations& saved, WeightGradQueue& /*queue*/) {
  saved.pop();
  for (std::size_t i = layers_.size(); i-- > 0;) {
    const bool is_last_layer = i + 1 == layers_.size();
    exchange(ExpertTransfer::Operation::kCombineBackward, is_last_layer);
    unit_.compute(layers_[i].experts_backward_ms);
    exchange(ExpertTransfer::Operation::kDispatchBackward, is_last_layer);
    unit_.compute(layers_[i].attention_backward_ms);
  }
  return {output_};
}

}  // namespace ppctl
