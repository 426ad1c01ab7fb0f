#include "simulate/encoder_memory.hpp"

namespace ppctl {
namespace {

/// What rank `rank` of `ranks` folds of `bytes` of gradients, padded.
std::int64_t part_bytes(std::int64_t bytes, std::int64_t ranks, std::int64_t element_bytes) {
  return (bytes / element_bytes + ranks - 1) / ranks * element_bytes;
}

}  // namespace

EncoderMemory::EncoderMemory(const Schedule& schedule, const MemoryModel& model, PipelineRank rank)
    : schedule_(schedule), model_(model), rank_(rank), pixels_(pixel_bytes(model.spec, model.shape)) {
  message_bytes_ = pixels_;
  if (model.spec.transposed_layers < 0) return;
  const StageRange range = transposed_range(model.spec);
  message_bytes_ = hidden_bytes(model.spec, range.last_layer, model.shape);
  trains_ = model.spec.vision->training == VisionSpec::Training::kAll;
  repeats_ = trains_ && model.encoder_recomputes;
  StageEnds ends;
  kept_images_forward_ = stage_memory(model.spec, range, model.shape, ends).forward;
  ends.images_given = true;
  remote_ = stage_memory(model.spec, range, model.shape, ends);
  ends.gradient_received = false;
  local_ = stage_memory(model.spec, range, model.shape, ends);
  held_.emplace(model, range);
  held_->unshard();
}

void EncoderMemory::add_to(RankMemory& memory) const {
  if (held_) held_->add_to(memory);
}

int EncoderMemory::consumer(MetaStep step) const {
  return schedule_.placement.rank_of(step.stage(), step.microbatch(), schedule_.num_microbatches).value;
}

void EncoderMemory::run(MetaStep step, const Note& note) {
  switch (step.type()) {
    case MetaStepType::LOAD_DATA:
      activations_ += pixels_;
      return note(0, false);
    case MetaStepType::PREPROCESS_FORWARD:
      return forward(step, note);
    case MetaStepType::PREPROCESS_BACKWARD:
    case MetaStepType::PREPROCESS_BACKWARD_INPUT:
      return backward(step, note);
    case MetaStepType::PREPROCESS_BACKWARD_WEIGHT:
      return backward_weight(step, note);
    case MetaStepType::SEND_DATA:
    case MetaStepType::SEND_FEATURES:
    case MetaStepType::SEND_FEATURE_GRADS:
      activations_ -= message_bytes_;
      return;
    default:  // a receive
      buffers_.post(step.peer().value, message_bytes_, 0);
  }
}

void EncoderMemory::run_part(const StepMemory& part, const Note& note) {
  note(part.peak, false);
  activations_ += part.change;
}

void EncoderMemory::forward(MetaStep step, const Note& note) {
  const StageMemory& memory = is_local(step) ? local_ : remote_;
  run_part(repeats_ ? kept_images_forward_ : memory.forward, note);
  if (repeats_) activations_ -= kept_images_forward_.change - memory.output_bytes;
}

void EncoderMemory::backward(MetaStep step, const Note& note) {
  const StageMemory& memory = is_local(step) ? local_ : remote_;
  const bool whole = step.type() == MetaStepType::PREPROCESS_BACKWARD;
  if (!is_local(step)) buffers_.take(consumer(step), message_bytes_);
  if (whole) held_->before_weight_grads();
  if (repeats_) {
    run_part(memory.forward, note);
    activations_ -= memory.output_bytes;  // made for nobody
  }
  run_part(whole ? memory.backward : memory.backward_input, note);
  const HeldUntil held = whole ? memory.gradient_held : memory.divided_gradient_held;
  if (!is_local(step) && held == HeldUntil::kBackward) buffers_.release(consumer(step), message_bytes_);
  if (whole) keep(note);
}

void EncoderMemory::backward_weight(MetaStep step, const Note& note) {
  const StageMemory& memory = is_local(step) ? local_ : remote_;
  held_->before_weight_grads();
  run_part(memory.backward_weight, note);
  if (!is_local(step) && memory.divided_gradient_held == HeldUntil::kWeight)
    buffers_.release(consumer(step), message_bytes_);
  keep(note);
}

/// GradientFold::keep, after a reduction over the ranks that share the encoder where every microbatch has one.
void EncoderMemory::keep(const Note& note) {
  if (model_.reduces_every_microbatch && held_->is_sharded()) {
    note(held_->reduce_grad(), true);
    kept_ += held_->gradients();
    held_->clear_shard_gradients();
    note(std::ranges::max(held_->trained_group_bytes(/*shards=*/true)), true);  // that is being copied
  } else {
    kept_ += held_->trained_gradients();
    note(0, true);
  }
  ++num_kept_;
}

/// Each rank folds one part of each group's gradients, of all microbatches: what it sends and what comes are there at
/// once, then the sums, which it gathers.
void EncoderMemory::end_step(const Note& note) {
  if (!held_ || !trains_) return;
  const std::int64_t ranks = schedule_.pp();
  const bool shards = model_.reduces_every_microbatch && held_->is_sharded();
  const auto part_of = [&](std::int64_t bytes) { return part_bytes(bytes, ranks, model_.shape.accumulator_bytes()); };
  std::int64_t sums = 0;
  for (const std::int64_t bytes : held_->trained_group_bytes(shards)) {
    const std::int64_t part = part_of(bytes);
    const std::int64_t sent = ranks * part * num_kept_;
    const std::int64_t received = part * schedule_.num_microbatches;
    note(sums + sent + ranks * part, true);
    kept_ -= bytes * num_kept_;
    note(sums + sent + received, true);
    sums += part;
    note(sums + received, true);
  }
  num_kept_ = 0;
  if (!shards) held_->before_weight_grads();
  for (const std::int64_t bytes : held_->trained_group_bytes(shards)) note(sums + ranks * part_of(bytes), true);
  if (!shards && held_->is_sharded()) note(held_->reduce_grad(), true);
}

}  // namespace ppctl
