// Overlapped pairs: when their halves run, and the transfers that start before both have ended.
#include <algorithm>
#include <array>

#include "simulate/engine.hpp"

namespace ppctl {

bool SimulationEngine::run_overlapped(int rank, MetaStep pair) {
  const auto halves = schedule_.ranks[static_cast<std::size_t>(rank)].sub_steps_of(pair);
  for (const MetaStep half : halves) check_step(rank, half);
  PairHalves ready;
  if (!halves_ready(rank, halves, &ready)) return false;
  RankState& me = state(rank);
  double now = me.now;
  for (const MetaStep half : halves) wait_for_parameters(rank, half.stage().value, &now);
  const PairTimes times = time_pair(halves, now, ready);
  const double idle = count_pair_waits(rank, halves, now, ready, times);
  const double start = std::min(times.start.backward, times.start.forward);
  begin_work(rank, start);
  me.now = std::max(times.end.backward, times.end.forward);
  me.busy += me.now - start - idle;
  // The forward's activations come before the backward's go.
  add_chunk(rank, routes_.at(halves[1].stage().value, halves[1].microbatch().value).activation_bytes);
  record(rank, times.start.backward, times.end.backward, EventKind::kOverlapped, halves[0], 0);
  record(rank, times.start.forward, times.end.forward, EventKind::kForward, halves[1], 1);
  const std::array<double, 2> ends{times.end.backward, times.end.forward};
  for (std::size_t i = 0; i < ends.size(); ++i) {
    finish_compute(rank, halves[i], routes_.at(halves[i].stage().value, halves[i].microbatch().value), ends[i]);
  }
  if (communicates_) note_pair_transfers(rank, times);
  return true;
}

bool SimulationEngine::halves_ready(int rank, std::span<const MetaStep> halves, PairHalves* ready) {
  std::array<double, 2> times{0, 0};
  // A rank that has not started counts no waits.
  const bool was_started = std::exchange(state(rank).started, false);
  bool all = true;
  for (std::size_t i = 0; i < times.size() && all; ++i) {
    const StageRoute& route = routes_.at(halves[i].stage().value, halves[i].microbatch().value);
    all = inputs_ready(rank, halves[i], route, &times[i]);
  }
  state(rank).started = was_started;
  *ready = {times[0], times[1]};
  return all;
}

PairTimes SimulationEngine::time_pair(std::span<const MetaStep> halves, double now, PairHalves ready) const {
  StageCosts backward = costs_.stages[static_cast<std::size_t>(halves[0].stage().value)];
  if (halves[0].type() == MetaStepType::BACKWARD_INPUT) {
    backward.dw_ms = 0;
    backward.backward_exchange_ms = std::min(backward.backward_exchange_ms, backward.dx_ms);
  }
  return time_overlapped_pair(costs_, backward, costs_.stages[static_cast<std::size_t>(halves[1].stage().value)], now,
                              ready);
}

int SimulationEngine::input_peer(MetaStep half, const StageRoute& route) const {
  if (half.type() != MetaStepType::FORWARD) return route.next;
  if (mail_.empty() || half.stage().value != mail_stage_) return route.previous;
  return mail_[kFeatures].sender[static_cast<std::size_t>(half.microbatch().value)];
}

double SimulationEngine::count_pair_waits(int rank, std::span<const MetaStep> halves, double now, PairHalves ready,
                                          const PairTimes& times) {
  // Halves that start together waited for the input that came last.
  const bool together = times.start.forward == times.start.backward;
  const bool backward_first = together ? ready.backward >= ready.forward : times.forward_starts_last();
  const MetaStep first = halves[backward_first ? 0 : 1];
  const MetaStep last = halves[backward_first ? 1 : 0];
  const auto wait = [&](MetaStep half, double from, double until) {
    if (until <= from) return 0.0;
    const StageRoute& route = routes_.at(half.stage().value, half.microbatch().value);
    double at = from;
    wait_until(rank, until, input_peer(half, route), half, &at);
    return until - from;
  };
  const double first_start = std::min(times.start.backward, times.start.forward);
  const double last_start = std::max(times.start.backward, times.start.forward);
  wait(first, now, first_start);
  return wait(last, std::max(times.idle_from, first_start), last_start);
}

void SimulationEngine::note_pair_transfers(int rank, const PairTimes& times) {
  if (early_.empty()) early_.resize(ranks_.size());
  auto& early = early_[static_cast<std::size_t>(rank)];
  early.clear();
  find_pair_transfers(schedule_.ranks[static_cast<std::size_t>(rank)], state(rank).next_step, pair_transfers_);
  for (const PairTransfer& transfer : pair_transfers_) {
    double time = 0;
    if (transfer.halves & kBackwardHalf) time = std::max(time, times.end.backward);
    if (transfer.halves & kForwardHalf) time = std::max(time, times.end.forward);
    early.emplace_back(transfer.step, time);
  }
}

double SimulationEngine::transfer_time(int rank) {
  const RankState& me = state(rank);
  if (early_.empty()) return me.now;
  const auto& early = early_[static_cast<std::size_t>(rank)];
  const auto found = std::ranges::find(early, me.next_step, &std::pair<std::size_t, double>::first);
  return found == early.end() ? me.now : found->second;
}

}  // namespace ppctl
