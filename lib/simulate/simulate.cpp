#include "simulate/simulate.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "schedule/text.hpp"
#include "simulate/engine.hpp"

namespace ppctl {

double RankIdle::total_ms() const {
  double total = warmup_ms + drain_ms + collective_ms + offload_ms;
  for (const PeerWait& wait : waits) total += wait.ms;
  return total;
}

Simulation simulate(const Schedule& schedule, const CostModel& costs, const SimulateOptions& options) {
  check_costs(costs, schedule.placement);
  PPCTL_CHECK_EQ(schedule.ranks.size(), static_cast<std::size_t>(schedule.pp()));
  return SimulationEngine(schedule, costs, options).run();
}

RankResult SimulationEngine::rank_result(int rank, double wall_ms) const {
  const RankState& me = ranks_[static_cast<std::size_t>(rank)];
  const int num_ranks = static_cast<int>(ranks_.size());
  RankResult result;
  result.busy_ms = me.busy;
  result.first_ms = me.first;
  result.last_ms = std::max(me.now, me.collective_free);
  result.peak_chunks = me.peak_chunks;
  result.peak_bytes = me.peak_bytes;
  for (const StageId stage : schedule_.placement.stages_of(PipelineRank(rank))) {
    result.peak_bytes += costs_.stages[static_cast<std::size_t>(stage.value)].state_bytes;
  }
  result.idle.warmup_ms = me.started ? me.first : 0;
  result.idle.drain_ms = wall_ms - me.now;
  result.idle.collective_ms = me.wait_collective;
  result.idle.offload_ms = me.wait_offload;
  const auto add_wait = [&](int peer, double ms) {
    if (ms <= 0) return;
    auto& waits = result.idle.waits;
    const auto found =
        std::find_if(waits.begin(), waits.end(), [&](const PeerWait& w) { return w.peer.value == peer; });
    if (found == waits.end()) {
      waits.push_back({PipelineRank(peer), ms});
    } else {
      found->ms += ms;
    }
  };
  add_wait((rank + num_ranks - 1) % num_ranks, me.wait_previous);
  add_wait((rank + 1) % num_ranks, me.wait_next);
  if (!far_waits_.empty()) {
    for (const PeerWait& wait : far_waits_[static_cast<std::size_t>(rank)]) add_wait(wait.peer.value, wait.ms);
  }
  return result;
}

Simulation SimulationEngine::result() {
  Simulation simulation;
  for (const RankState& me : ranks_) simulation.wall_ms = std::max({simulation.wall_ms, me.now, me.collective_free});
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const RankResult result = rank_result(static_cast<int>(rank), simulation.wall_ms);
    simulation.span_ms = std::max(simulation.span_ms, result.span_ms());
    simulation.ideal_ms = std::max(simulation.ideal_ms, result.busy_ms);
    simulation.ranks.push_back(result);
    simulation.num_steps += static_cast<std::int64_t>(schedule_.ranks[rank].steps.size());
  }
  simulation.p2p_messages = messages_;
  simulation.p2p_calls = calls_;
  simulation.p2p_batches = batches_;
  for (auto& events : timeline_.ranks) {
    std::stable_sort(events.begin(), events.end(),
                     [](const TimelineEvent& a, const TimelineEvent& b) { return a.start_ms < b.start_ms; });
  }
  timeline_.title = schedule_.name;
  simulation.timeline = std::move(timeline_);
  return simulation;
}

std::string SimulationEngine::describe_wait(int rank) const {
  const RankState& me = ranks_[static_cast<std::size_t>(rank)];
  const RankSteps& steps = schedule_.ranks[static_cast<std::size_t>(rank)];
  return fmt::format("rank {} waits at step {} ({})", rank, me.next_step,
                     format_step(steps, steps.steps[me.next_step]));
}

void SimulationEngine::report_deadlock() const {
  std::string waits;
  int num_waiting = 0;
  constexpr int kMostShown = 4;
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    if (ranks_[index].next_step == schedule_.ranks[index].steps.size()) continue;
    if (num_waiting++ < kMostShown) waits += (waits.empty() ? "" : ", ") + describe_wait(rank);
  }
  if (num_waiting > kMostShown) waits += fmt::format(" and {} more", num_waiting - kMostShown);
  throw_error("the schedule deadlocks: {}, each for a message that is never sent", waits);
}

}  // namespace ppctl
