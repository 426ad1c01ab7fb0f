// Messages: sends, receives and how they wake ranks.
#include <algorithm>

#include "base/error.hpp"
#include "schedule/text.hpp"
#include "simulate/engine.hpp"

namespace ppctl {
namespace {

/// The send or the receive of the message that `step` sends, receives or produces. Others, whose stage is the same at
/// both ends, as they are.
MetaStep end_of(MetaStep step, bool sends) {
  const int stage = step.stage().value;
  switch (step.type()) {
    case MetaStepType::FORWARD:
    case MetaStepType::SEND_FORWARD:
      return sends ? step : MetaStep(MetaStepType::RECV_FORWARD, StageId(stage + 1), step.microbatch());
    case MetaStepType::RECV_FORWARD:
      return sends ? MetaStep(MetaStepType::SEND_FORWARD, StageId(stage - 1), step.microbatch()) : step;
    case MetaStepType::BACKWARD:
    case MetaStepType::BACKWARD_INPUT:
    case MetaStepType::SEND_BACKWARD:
      return sends ? step : MetaStep(MetaStepType::RECV_BACKWARD, StageId(stage - 1), step.microbatch());
    case MetaStepType::RECV_BACKWARD:
      return sends ? MetaStep(MetaStepType::SEND_BACKWARD, StageId(stage + 1), step.microbatch()) : step;
    default:
      return step;
  }
}

}  // namespace

void SimulationEngine::post_p2p(int rank, MetaStep step, double time) {
  check_step(rank, step);
  const int stage = step.stage().value;
  const int microbatch = step.microbatch().value;
  const bool forward = step.type() == MetaStepType::SEND_FORWARD || step.type() == MetaStepType::RECV_FORWARD;
  const bool sends = step.type() == MetaStepType::SEND_FORWARD || step.type() == MetaStepType::SEND_BACKWARD;
  // The stage whose compute step uses the tensor.
  const int consumer = !sends ? stage : forward ? stage + 1 : stage - 1;
  if (consumer < 0 || consumer >= num_stages_ || (!sends && (forward ? stage == 0 : stage + 1 == num_stages_))) {
    throw_error("rank {}, step {}: {} has no stage on its other side", rank, state(rank).next_step, format_step(step));
  }
  const StageRoute& route = routes_.at(consumer, microbatch);
  const int producer_rank = forward ? route.previous : route.next;
  double* to = forward ? &activations_[cell(consumer, microbatch)] : &gradients_[cell(consumer, microbatch)];
  const StageRoute& producer = routes_.at(forward ? consumer - 1 : consumer + 1, microbatch);
  const TransferCosts& costs = forward ? producer.to_next : producer.to_previous;
  if (sends) {
    send(to, producer_rank, route.rank, costs, time, step);
  } else if (!first_side_.empty()) {
    join_transfer(to, producer_rank, route.rank, costs, time, step);
  }
}

void SimulationEngine::send(double* cell, int from, int to, TransferCosts costs, double time, MetaStep step) {
  ++messages_;
  if (first_side_.empty()) {
    start_transfer(cell, from, to, costs, time, step);
  } else {
    join_transfer(cell, from, to, costs, time, step);
  }
}

void SimulationEngine::join_transfer(double* cell, int from, int to, TransferCosts costs, double time, MetaStep step) {
  const bool forward = cell >= activations_.data() && cell < activations_.data() + activations_.size();
  const std::size_t index = forward ? static_cast<std::size_t>(cell - activations_.data())
                                    : activations_.size() + static_cast<std::size_t>(cell - gradients_.data());
  if (first_side_[index] == kUnset) {
    first_side_[index] = time;
  } else {
    start_transfer(cell, from, to, costs, std::max(time, first_side_[index]), step);
  }
}

void SimulationEngine::start_transfer(double* cell, int from, int to, TransferCosts costs, double time, MetaStep step) {
  double start = time;
  if (costs.occupancy_ms > 0) {
    const int num_ranks = static_cast<int>(ranks_.size());
    double& link_free = state(from).link_free[to == (from + 1) % num_ranks ? 0 : 1];
    start = std::max(time, link_free);
    link_free = start + costs.occupancy_ms;
  }
  const double arrival = start + costs.occupancy_ms + costs.latency_ms;
  record(from, start, arrival, EventKind::kSend, end_of(step, /*sends=*/true), 2, to);
  record(to, start, arrival, EventKind::kRecv, end_of(step, /*sends=*/false), 2, from);
  arrive(cell, to, arrival);
}

void SimulationEngine::arrive(double* cell, int to, double time) {
  *cell = time;
  if (state(to).waiting_for == cell) {
    state(to).waiting_for = nullptr;
    runnable_.push_back(to);
  }
}

}  // namespace ppctl
