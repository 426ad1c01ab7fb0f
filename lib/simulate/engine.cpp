#include "simulate/engine.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "schedule/text.hpp"

namespace ppctl {
namespace {

bool has_communication(const Schedule& schedule) {
  return std::any_of(schedule.ranks.begin(), schedule.ranks.end(), [](const RankSteps& rank) {
    return std::any_of(rank.steps.begin(), rank.steps.end(), [](MetaStep step) {
      return is_p2p(step.type()) || step.type() == MetaStepType::BATCH_SEND_RECV;
    });
  });
}

EventKind event_kind(MetaStepType type) {
  switch (type) {
    case MetaStepType::FORWARD:
      return EventKind::kForward;
    case MetaStepType::BACKWARD:
      return EventKind::kBackward;
    case MetaStepType::BACKWARD_INPUT:
      return EventKind::kBackwardInput;
    case MetaStepType::BACKWARD_WEIGHT:
      return EventKind::kBackwardWeight;
    default:
      return EventKind::kOther;
  }
}

double compute_ms(MetaStepType type, const StageRoute& route) {
  switch (type) {
    case MetaStepType::FORWARD:
      return route.forward_ms;
    case MetaStepType::BACKWARD:
      return route.dx_ms + route.dw_ms;
    case MetaStepType::BACKWARD_INPUT:
      return route.dx_ms;
    default:
      return route.dw_ms;
  }
}

}  // namespace

SimulationEngine::SimulationEngine(const Schedule& schedule, const CostModel& costs, const SimulateOptions& options)
    : schedule_(schedule),
      costs_(costs),
      options_(options),
      num_stages_(schedule.num_stages()),
      num_microbatches_(schedule.num_microbatches),
      routes_(schedule.placement, costs, schedule.num_microbatches),
      communicates_(has_communication(schedule)),
      ranks_(schedule.ranks.size()) {
  const std::size_t num_cells = static_cast<std::size_t>(num_stages_) * static_cast<std::size_t>(num_microbatches_);
  activations_.assign(num_cells, kUnset);
  gradients_.assign(num_cells, kUnset);
  if (costs.rendezvous && communicates_) first_side_.assign(2 * num_cells, kUnset);
  PPCTL_CHECK(options.start_ms.empty() || options.start_ms.size() == ranks_.size(), "{} starts for {} ranks",
              options.start_ms.size(), ranks_.size());
  for (std::size_t rank = 0; rank < options.start_ms.size(); ++rank) {
    ranks_[rank].now = ranks_[rank].collective_free = options.start_ms[rank];
  }
  if (options.timeline) timeline_.ranks.resize(schedule.ranks.size());
}

Simulation SimulationEngine::run() {
  const int num_ranks = static_cast<int>(ranks_.size());
  for (int rank = num_ranks - 1; rank >= 0; --rank) runnable_.push_back(rank);
  while (!runnable_.empty()) {
    const int rank = runnable_.back();
    runnable_.pop_back();
    advance(rank);
  }
  for (int rank = 0; rank < num_ranks; ++rank) {
    if (state(rank).next_step < schedule_.ranks[static_cast<std::size_t>(rank)].steps.size()) report_deadlock();
  }
  return result();
}

void SimulationEngine::advance(int rank) {
  const std::vector<MetaStep>& steps = schedule_.ranks[static_cast<std::size_t>(rank)].steps;
  RankState& me = state(rank);
  me.waiting_for = nullptr;
  while (me.next_step < steps.size()) {
    if (!run_step(rank, steps[me.next_step])) return;
    ++me.next_step;
  }
}

bool SimulationEngine::run_step(int rank, MetaStep step) {
  if (is_compute(step.type())) return run_compute(rank, step);
  if (is_p2p(step.type())) {
    ++calls_;
    post_p2p(rank, step, transfer_time(rank));
    return true;
  }
  if (step.type() == MetaStepType::BATCH_SEND_RECV) {
    ++calls_;
    ++batches_;
    const double time = transfer_time(rank);
    for (const MetaStep sub : schedule_.ranks[static_cast<std::size_t>(rank)].sub_steps_of(step)) {
      post_p2p(rank, sub, time);
    }
    return true;
  }
  if (step.type() == MetaStepType::OVERLAP_B_F) return run_overlapped(rank, step);
  return run_other(rank, step);
}

bool SimulationEngine::run_compute(int rank, MetaStep step) {
  check_step(rank, step);
  const StageRoute& route = routes_.at(step.stage().value, step.microbatch().value);
  double start = state(rank).now;
  if (!inputs_ready(rank, step, route, &start)) return false;
  wait_for_parameters(rank, step.stage().value, &start);
  begin_work(rank, start);
  if (step.type() == MetaStepType::FORWARD) add_chunk(rank, route.activation_bytes);
  const double duration = compute_ms(step.type(), route);
  RankState& me = state(rank);
  me.busy += duration;
  me.now = start + duration;
  record(rank, start, me.now, event_kind(step.type()), step, 0);
  finish_compute(rank, step, route, me.now);
  return true;
}

bool SimulationEngine::run_other(int rank, MetaStep step) {
  switch (step.type()) {
    case MetaStepType::UNSHARD:
    case MetaStepType::RESHARD:
    case MetaStepType::REDUCE_GRAD:
      run_collective(rank, step);
      return true;
    case MetaStepType::LAUNCH_OFFLOAD:
    case MetaStepType::WAIT_OFFLOAD:
    case MetaStepType::LAUNCH_LOAD:
    case MetaStepType::WAIT_LOAD:
      run_offload(rank, step);
      return true;
    case MetaStepType::LOAD_DATA:
    case MetaStepType::PREPROCESS_FORWARD:
    case MetaStepType::PREPROCESS_BACKWARD:
    case MetaStepType::PREPROCESS_BACKWARD_INPUT:
    case MetaStepType::PREPROCESS_BACKWARD_WEIGHT:
      return run_preprocess(rank, step);
    default:
      post_mail(rank, step);
      return true;
  }
}

bool SimulationEngine::inputs_ready(int rank, MetaStep step, const StageRoute& route, double* start) {
  const int stage = step.stage().value;
  const int microbatch = step.microbatch().value;
  const double* input = nullptr;
  int peer = -1;
  if (step.type() == MetaStepType::FORWARD) {
    if (!mail_.empty() && stage == mail_stage_ &&
        !(mail_ready(rank, kData, microbatch, start) && mail_ready(rank, kFeatures, microbatch, start))) {
      return false;
    }
    if (stage > 0) {
      input = &activations_[cell(stage, microbatch)];
      peer = route.previous;
    }
  } else if (step.type() != MetaStepType::BACKWARD_WEIGHT && stage + 1 < num_stages_) {
    input = &gradients_[cell(stage, microbatch)];
    peer = route.next;
  }
  if (input != nullptr) {
    if (*input == kUnset) {
      state(rank).waiting_for = input;
      return false;
    }
    if (*input > *start) wait_until(rank, *input, peer, step, start);
  }
  return true;
}

void SimulationEngine::wait_for_parameters(int rank, int stage, double* start) {
  if (unsharded_.empty()) return;
  const double ready = unsharded_[parameter_slot(rank, stage)];
  if (ready <= *start) return;
  RankState& me = state(rank);
  if (me.started) me.wait_collective += ready - *start;
  *start = ready;
}

void SimulationEngine::wait_until(int rank, double time, int peer, MetaStep step, double* start) {
  RankState& me = state(rank);
  if (me.started) {
    const int num_ranks = static_cast<int>(ranks_.size());
    if (peer == (rank + 1) % num_ranks) {
      me.wait_next += time - *start;
    } else if (peer == (rank + num_ranks - 1) % num_ranks) {
      me.wait_previous += time - *start;
    } else {
      if (far_waits_.empty()) far_waits_.resize(ranks_.size());
      far_waits_[static_cast<std::size_t>(rank)].push_back({PipelineRank(peer), time - *start});
    }
    record(rank, *start, time, EventKind::kWait, step, 0, peer);
  }
  *start = time;
}

void SimulationEngine::begin_work(int rank, double start) {
  RankState& me = state(rank);
  if (me.started) return;
  me.started = true;
  me.first = start;
}

void SimulationEngine::finish_compute(int rank, MetaStep step, const StageRoute& route, double end) {
  const int stage = step.stage().value;
  const int microbatch = step.microbatch().value;
  if (step.type() == MetaStepType::FORWARD) {
    // In a lowered schedule only what stays on the rank travels by itself.
    if (route.next >= 0 && (!communicates_ || route.next == rank)) {
      double* to = &activations_[cell(stage + 1, microbatch)];
      if (route.next == rank) {
        arrive(to, rank, end);
      } else {
        send(to, rank, route.next, route.to_next, end, step);
      }
    }
    return;
  }
  if (step.type() != MetaStepType::BACKWARD_INPUT) remove_chunk(rank, route.activation_bytes);
  if (step.type() == MetaStepType::BACKWARD_WEIGHT || route.previous < 0) return;
  if (communicates_ && route.previous != rank) return;
  double* to = &gradients_[cell(stage - 1, microbatch)];
  if (route.previous == rank) {
    arrive(to, rank, end);
  } else {
    send(to, rank, route.previous, route.to_previous, end, step);
  }
}

void SimulationEngine::add_chunk(int rank, double bytes) {
  RankState& me = state(rank);
  me.peak_chunks = std::max(me.peak_chunks, ++me.chunks);
  me.bytes += bytes;
  me.peak_bytes = std::max(me.peak_bytes, me.bytes);
}

void SimulationEngine::remove_chunk(int rank, double bytes) {
  RankState& me = state(rank);
  --me.chunks;
  me.bytes -= bytes;
}

void SimulationEngine::record(int rank, double start, double end, EventKind kind, MetaStep step, int lane, int peer) {
  if (!options_.timeline || !(end > start) || (lane == 2 && !options_.communication)) return;
  TimelineEvent event;
  event.start_ms = start;
  event.end_ms = end;
  event.kind = kind;
  event.lane = static_cast<std::uint8_t>(lane);
  event.stage = step.stage();
  event.microbatch = step.microbatch();
  event.peer = PipelineRank(peer);
  timeline_.ranks[static_cast<std::size_t>(rank)].push_back(event);
}

void SimulationEngine::check_step(int rank, MetaStep step) const {
  const int stage = step.stage().value;
  const int microbatch = step.microbatch().value;
  if (stage < 0 || stage >= num_stages_ || microbatch < 0 || microbatch >= num_microbatches_) [[unlikely]] {
    throw_error("rank {}, step {}: {} is outside the schedule's {} stages and {} microbatches", rank,
                ranks_[static_cast<std::size_t>(rank)].next_step, format_step(step), num_stages_, num_microbatches_);
  }
}

}  // namespace ppctl
