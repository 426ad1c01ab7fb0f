// What runs beside the compute thread: collectives, offloads, and MPipe's data and features.
#include <algorithm>

#include "base/error.hpp"
#include "schedule/text.hpp"
#include "simulate/engine.hpp"

namespace ppctl {

std::size_t SimulationEngine::parameter_slot(int rank, int stage) const {
  // In a bidirectional placement rank r holds stage r as its first chunk and stage p − 1 − r as its second.
  const bool second_copy = schedule_.placement.kind() == PlacementKind::kBidirectional && rank != stage;
  return 2 * static_cast<std::size_t>(stage) + (second_copy ? 1 : 0);
}

void SimulationEngine::run_collective(int rank, MetaStep step) {
  const int stage = step.stage().value;
  if (stage < 0 || stage >= num_stages_) {
    throw_error("rank {}, step {}: {} is outside the schedule's {} stages", rank, state(rank).next_step,
                format_step(step), num_stages_);
  }
  if (step.type() == MetaStepType::RESHARD) return;
  RankState& me = state(rank);
  const StageCosts& costs = costs_.stages[static_cast<std::size_t>(stage)];
  const bool unshard = step.type() == MetaStepType::UNSHARD;
  const double start = std::max(me.now, me.collective_free);
  me.collective_free = start + (unshard ? costs.all_gather_ms : costs.reduce_scatter_ms);
  record(rank, start, me.collective_free, EventKind::kCollective, step, 2);
  if (!unshard) return;
  if (unsharded_.empty()) unsharded_.assign(2 * static_cast<std::size_t>(num_stages_), 0);
  unsharded_[parameter_slot(rank, stage)] = me.collective_free;
}

double SimulationEngine::swapped_bytes(int stage) const {
  const StageCosts& costs = costs_.stages[static_cast<std::size_t>(stage)];
  return costs.activation_bytes - costs.unswapped_bytes;
}

double SimulationEngine::offload_ms(int stage) const {
  const double bytes = swapped_bytes(stage);
  return costs_.offload_gbps > 0 ? bytes / (costs_.offload_gbps * 125'000.0) : 0;
}

void SimulationEngine::run_offload(int rank, MetaStep step) {
  check_step(rank, step);
  const int stage = step.stage().value;
  const double bytes = swapped_bytes(stage);
  if (moved_.empty()) moved_.assign(activations_.size(), 0);
  double& moved = moved_[cell(stage, step.microbatch().value)];
  RankState& me = state(rank);
  const bool offload = step.type() == MetaStepType::LAUNCH_OFFLOAD;
  if (offload || step.type() == MetaStepType::LAUNCH_LOAD) {
    double& lane_free = offload ? me.offload_free : me.load_free;
    const double start = std::max(me.now, lane_free);
    moved = lane_free = start + offload_ms(stage);
    record(rank, start, moved, offload ? EventKind::kOffload : EventKind::kLoad, step, 2);
    if (!offload) add_chunk(rank, bytes);
    return;
  }
  if (moved > me.now) {
    me.wait_offload += moved - me.now;
    record(rank, me.now, moved, EventKind::kWait, step, 0, rank);
    me.now = moved;
  }
  if (step.type() == MetaStepType::WAIT_OFFLOAD) remove_chunk(rank, bytes);
}

std::pair<EventKind, double> SimulationEngine::preprocess_work(MetaStepType type) const {
  switch (type) {
    case MetaStepType::PREPROCESS_FORWARD:
      return {EventKind::kEncoderForward, costs_.encoder_forward_ms};
    case MetaStepType::PREPROCESS_BACKWARD:
      return {EventKind::kEncoderBackward, costs_.encoder_dx_ms + costs_.encoder_dw_ms};
    case MetaStepType::PREPROCESS_BACKWARD_INPUT:
      return {EventKind::kEncoderBackwardInput, costs_.encoder_dx_ms};
    case MetaStepType::PREPROCESS_BACKWARD_WEIGHT:
      return {EventKind::kEncoderBackwardWeight, costs_.encoder_dw_ms};
    default:
      return {EventKind::kLoadData, costs_.load_data_ms};
  }
}

bool SimulationEngine::run_preprocess(int rank, MetaStep step) {
  const int microbatch = step.microbatch().value;
  if (microbatch < 0 || microbatch >= num_microbatches_) {
    throw_error("rank {}, step {}: {} is outside the schedule's {} microbatches", rank, state(rank).next_step,
                format_step(step), num_microbatches_);
  }
  RankState& me = state(rank);
  double start = me.now;
  if (step.type() == MetaStepType::PREPROCESS_FORWARD && !mail_ready(rank, kData, microbatch, &start)) return false;
  if (takes_feature_grads(step.type()) && !mail_ready(rank, kFeatureGrads, microbatch, &start)) return false;
  const auto [kind, duration] = preprocess_work(step.type());
  begin_work(rank, start);
  me.busy += duration;
  me.now = start + duration;
  record(rank, start, me.now, kind, step, 0);
  return true;
}

bool SimulationEngine::mail_ready(int rank, MailKind kind, int microbatch, double* start) {
  if (mail_.empty()) return true;
  const Mailbox& box = mail_[static_cast<std::size_t>(kind)];
  const auto index = static_cast<std::size_t>(microbatch);
  if (box.receiver[index] != rank) return true;  // what it needs is its own
  if (box.arrival[index] == kUnset) {
    state(rank).waiting_for = &box.arrival[index];
    return false;
  }
  if (box.arrival[index] > *start) wait_until(rank, box.arrival[index], box.sender[index], MetaStep(), start);
  return true;
}

void SimulationEngine::post_mail(int rank, MetaStep step) {
  check_step(rank, step);
  mail_stage_ = step.stage().value;
  if (mail_.empty()) {
    const auto count = static_cast<std::size_t>(num_microbatches_);
    mail_.assign(kNumMailKinds,
                 {std::vector<double>(count, kUnset), std::vector<int>(count, -1), std::vector<int>(count, -1)});
  }
  const MetaStepType type = step.type();
  const MailKind kind = type == MetaStepType::SEND_DATA || type == MetaStepType::RECV_DATA           ? kData
                        : type == MetaStepType::SEND_FEATURES || type == MetaStepType::RECV_FEATURES ? kFeatures
                                                                                                     : kFeatureGrads;
  const bool sends = type == MetaStepType::SEND_DATA || type == MetaStepType::SEND_FEATURES ||
                     type == MetaStepType::SEND_FEATURE_GRADS;
  Mailbox& box = mail_[static_cast<std::size_t>(kind)];
  const auto index = static_cast<std::size_t>(step.microbatch().value);
  const int peer = step.peer().value;
  PPCTL_CHECK(peer >= 0 && peer < static_cast<int>(ranks_.size()), "a message of rank {} to rank {}", rank, peer);
  ++calls_;
  if (!sends) {
    box.receiver[index] = rank;
    return;
  }
  ++messages_;
  box.sender[index] = rank;
  const double bytes = costs_.stages[static_cast<std::size_t>(step.stage().value)].output_bytes;
  start_transfer(&box.arrival[index], rank, peer, routes_.transfer(rank, peer, bytes), state(rank).now, step);
}

}  // namespace ppctl
