#include "simulate/cadence.hpp"

#include <algorithm>
#include <vector>

#include "simulate/simulate.hpp"

namespace ppctl {
namespace {

/// Steps after which ranks that still drift apart are taken as they are: few more than it takes a delay to go once
/// around.
constexpr int kMostSteps = 8;

/// When each rank may begin its next step: its own end, or that of a rank before it and the messages from there.
std::vector<double> next_starts(const Simulation& step, double message_ms, double optimizer_ms) {
  std::vector<double> starts;
  double state = 0;
  for (const RankResult& rank : step.ranks) {
    state = starts.empty() ? rank.last_ms : std::max(rank.last_ms, state + message_ms);
    starts.push_back(state + optimizer_ms);
  }
  return starts;
}

}  // namespace

Cadence step_cadence(const Schedule& schedule, const CostModel& costs, double optimizer_ms) {
  SimulateOptions options;
  Simulation step = simulate(schedule, costs, options);
  Cadence cadence;
  cadence.ideal_ms = step.ideal_ms + optimizer_ms;
  cadence.barrier_ms = step.wall_ms + optimizer_ms;

  const double message_ms = costs.p2p_ms + costs.link.latency_ms;
  options.start_ms.assign(step.ranks.size(), 0.0);
  for (int i = 0; i < kMostSteps; ++i) {
    const std::vector<double> starts = next_starts(step, message_ms, optimizer_ms);
    double least = starts[0] - options.start_ms[0];
    double most = least;
    for (std::size_t rank = 0; rank < starts.size(); ++rank) {
      const double period = starts[rank] - options.start_ms[rank];
      least = std::min(least, period);
      most = std::max(most, period);
    }
    cadence.post_validation_ms = most;
    if (most - least < 1e-9 * most) break;
    const double origin = *std::ranges::min_element(starts);
    for (std::size_t rank = 0; rank < starts.size(); ++rank) options.start_ms[rank] = starts[rank] - origin;
    step = simulate(schedule, costs, options);
  }
  return cadence;
}

}  // namespace ppctl
