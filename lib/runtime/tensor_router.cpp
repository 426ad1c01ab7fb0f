#include "runtime/tensor_router.hpp"

#include <utility>

#include "base/error.hpp"
#include "schedule/text.hpp"

namespace ppctl {

TensorRouter::TensorRouter(const Schedule& schedule, const PipelineRanks& ranks, int tag_space)
    : placement_(schedule.placement),
      num_microbatches_(schedule.num_microbatches),
      rank_(ranks.rank),
      chunk_by_stage_(static_cast<std::size_t>(schedule.num_stages()), -1),
      edges_(*ranks.transport, ranks.world_ranks, schedule.num_stages(), schedule.num_microbatches, tag_space) {
  for (int chunk = 0; chunk < placement_.chunks(); ++chunk) {
    chunk_by_stage_[static_cast<std::size_t>(placement_.stage_of(rank_, chunk).value)] = chunk;
  }
  const auto slots = static_cast<std::size_t>(2 * placement_.chunks() * num_microbatches_);
  incoming_.resize(slots);
  outgoing_.resize(slots);
}

void TensorRouter::begin_step() {
  for (Slot& slot : incoming_) slot = Slot();
  for (TensorList& tensors : outgoing_) tensors.clear();
}

int TensorRouter::chunk_of(StageId stage) const {
  const int chunk = stage.valid() && stage.value < placement_.num_stages()
                        ? chunk_by_stage_[static_cast<std::size_t>(stage.value)]
                        : -1;
  if (chunk < 0) throw_error("rank {} does not hold stage {}", rank_, stage);
  return chunk;
}

std::size_t TensorRouter::index(Kind kind, int stage, int microbatch) const {
  const int chunk = chunk_of(StageId(stage));
  PPCTL_CHECK(microbatch >= 0 && microbatch < num_microbatches_, "microbatch {} of {}", microbatch, num_microbatches_);
  return static_cast<std::size_t>((kind * placement_.chunks() + chunk) * num_microbatches_ + microbatch);
}

TensorRouter::Kind TensorRouter::kind_of(MetaStepType type) {
  return type == MetaStepType::FORWARD || type == MetaStepType::SEND_FORWARD || type == MetaStepType::RECV_FORWARD
             ? kForward
             : kBackward;
}

int TensorRouter::rank_of(int stage, int microbatch) const {
  return placement_.rank_of(StageId(stage), MicrobatchId(microbatch), num_microbatches_).value;
}

Transfer TensorRouter::transfer_of(MetaStep step) const {
  const bool forward = kind_of(step.type()) == kForward;
  const bool is_send = step.type() == MetaStepType::SEND_FORWARD || step.type() == MetaStepType::SEND_BACKWARD;
  const int stage = step.stage().value;
  Transfer transfer;
  transfer.gradient = !forward;
  transfer.receiving_stage = !is_send ? stage : forward ? stage + 1 : stage - 1;
  transfer.microbatch = step.microbatch().value;
  transfer.peer = step.peer().value;
  return transfer;
}

TensorRouter::Slot* TensorRouter::input_slot(MetaStep compute) {
  const int stage = compute.stage().value;
  const Kind kind = kind_of(compute.type());
  const bool at_end = kind == kForward ? stage == 0 : stage == placement_.num_stages() - 1;
  return at_end ? nullptr : &incoming_[index(kind, stage, compute.microbatch().value)];
}

TensorList TensorRouter::take_inputs(MetaStep compute, Deadline deadline, std::string_view context, WaitSpan* wait) {
  Slot* slot = input_slot(compute);
  if (slot == nullptr) return {};
  if (slot->pending.valid()) {
    wait->peer = PipelineRank(slot->pending.peer());
    wait->start = monotonic_now();
    slot->tensors = slot->pending.wait(deadline, context);
    slot->full = true;
    wait->end = monotonic_now();
  }
  PPCTL_CHECK(slot->full, "{}: nobody gave its {}", format_step(compute),
              compute.type() == MetaStepType::FORWARD ? "inputs" : "output gradients");
  slot->full = false;
  return std::move(slot->tensors);
}

void TensorRouter::fill(Slot& slot, MetaStep step, TensorList tensors) {
  PPCTL_CHECK(!slot.full && !slot.pending.valid(), "{}: its tensors are there already", format_step(step));
  slot.tensors = std::move(tensors);
  slot.full = true;
}

void TensorRouter::give_outputs(MetaStep compute, TensorList tensors) {
  const Kind kind = kind_of(compute.type());
  const int stage = compute.stage().value;
  const int microbatch = compute.microbatch().value;
  const int next = kind == kForward ? stage + 1 : stage - 1;
  if (next < 0 || next == placement_.num_stages()) return;
  if (rank_of(next, microbatch) == rank_.value) {
    fill(incoming_[index(kind, next, microbatch)], compute, std::move(tensors));
  } else {
    outgoing_[index(kind, stage, microbatch)] = std::move(tensors);
  }
}

TensorList TensorRouter::take_outgoing(MetaStep send) {
  return std::exchange(outgoing_[index(kind_of(send.type()), send.stage().value, send.microbatch().value)], {});
}

void TensorRouter::give_incoming(MetaStep recv, TensorList tensors) {
  fill(incoming_[index(kind_of(recv.type()), recv.stage().value, recv.microbatch().value)], recv, std::move(tensors));
}

void TensorRouter::send(MetaStep step) { edges_.send(transfer_of(step), take_outgoing(step)); }

void TensorRouter::post(MetaStep step) {
  Slot& slot = incoming_[index(kind_of(step.type()), step.stage().value, step.microbatch().value)];
  PPCTL_CHECK(!slot.full && !slot.pending.valid(), "{}: received already", format_step(step));
  slot.pending = edges_.post(transfer_of(step));
}

void TensorRouter::batch(std::span<const MetaStep> steps) {
  edges_.begin_batch();
  for (const MetaStep step : steps) {
    const bool is_send = step.type() == MetaStepType::SEND_FORWARD || step.type() == MetaStepType::SEND_BACKWARD;
    is_send ? send(step) : post(step);
  }
  edges_.start_batch();
}

void TensorRouter::finish_sends(Deadline deadline, std::string_view context) { edges_.finish_sends(deadline, context); }

}  // namespace ppctl
