// auto: the zero-bubble paper's search (Qi et al., arXiv 2401.10241, section 3.1) under a memory limit, for the costs
// at hand: ZB-1p and ZB-2p with limits of p and 2p microbatches, and anything between or beyond.
//
//   candidates: the greedy order with every setting, in a loop and with two chunks also in a V; and the fixed schedules
//   that fit the best: the shortest span; of equal ones, the shortest wall
//
// The search ends early at an order that none can beat, and after a number of steps that takes about a minute: a plan
// for a thousand ranks tries fewer settings than one for a hundred.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "base/error.hpp"
#include "schedule/generators/generators.hpp"
#include "schedule/generators/greedy.hpp"
#include "schedule/generators/order_time.hpp"

namespace ppctl::generate {
namespace {

/// Most compute steps of greedy orders, all settings together. Larger plans get a fixed schedule where one fits.
constexpr std::int64_t kMostSteps = 200'000'000;

struct Candidate {
  Schedule schedule;
  OrderTime time;
};

std::vector<ChunkCosts> costs_of(const ScheduleSpec& spec) {
  if (!spec.stage_costs.empty()) return spec.stage_costs;
  return std::vector<ChunkCosts>(static_cast<std::size_t>(spec.pp * spec.chunks), spec.costs);
}

double limit_of(const ScheduleSpec& spec) { return spec.memory_limit > 0 ? spec.memory_limit : 2.0 * spec.pp; }

std::vector<GreedySettings> all_settings(int p) {
  std::vector<int> one_more = {-1};
  for (const int r : {p / 2 - 1, p / 4 - 1, 3 * p / 4 - 1, p - 2}) {
    if (r >= 0 && std::find(one_more.begin(), one_more.end(), r) == one_more.end()) one_more.push_back(r);
  }
  std::vector<GreedySettings> all;
  for (const int r : one_more) {
    for (int bits = 0; bits < 16; ++bits) {
      const GreedySettings settings{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0, r};
      if (settings.fill_small_gaps || !settings.fill_while_draining) all.push_back(settings);
    }
  }
  return all;
}

/// Most activations that a rank holds, one between I and W counting as `kept`.
double peak_chunks(const Schedule& schedule, double kept) {
  double peak = 0;
  for (const RankSteps& rank : schedule.ranks) {
    double held = 0;
    for (const MetaStep step : rank.steps) {
      if (step.type() == MetaStepType::FORWARD) held += 1;
      if (step.type() == MetaStepType::BACKWARD_INPUT) held -= 1 - kept;
      if (step.type() == MetaStepType::BACKWARD_WEIGHT) held -= kept;
      peak = std::max(peak, held);
    }
  }
  return peak;
}

/// The schedules with a fixed order and a divided backward for this number of chunks.
std::vector<Schedule> fixed_schedules(const ScheduleSpec& spec) {
  if (spec.chunks == 1) return {zb_h1(spec), zb_h2(spec)};
  std::vector<Schedule> schedules = {interleaved_zb(spec)};
  if (spec.chunks == 2) {
    for (const auto generate : {zb_v, v_half, v_min}) schedules.push_back(generate(spec));
  }
  return schedules;
}

constexpr double kSame = 1 + 1e-6;

/// What no order of this placement goes below: the work of the busiest rank, and that work after the forwards that lead
/// to its first stage.
OrderTime least_time(const Placement& placement, const std::vector<ChunkCosts>& costs, int num_microbatches) {
  const auto p = static_cast<std::size_t>(placement.pp());
  std::vector<double> head(p, -1);
  std::vector<double> work(p, 0);
  double forwards = 0;
  for (std::size_t stage = 0; stage < costs.size(); ++stage) {
    const auto at = [&](std::size_t of) {
      return static_cast<std::size_t>(
          placement.rank_of(StageId(static_cast<int>(of)), MicrobatchId(0), num_microbatches).value);
    };
    const std::size_t rank = at(stage);
    if (stage > 0 && at(stage - 1) != rank) forwards += costs[stage - 1].p2p;
    if (head[rank] < 0) head[rank] = forwards;
    work[rank] += num_microbatches * (costs[stage].forward + costs[stage].dx + costs[stage].dw);
    forwards += costs[stage].forward;
  }
  OrderTime least;
  for (std::size_t rank = 0; rank < p; ++rank) {
    least.span = std::max(least.span, work[rank]);
    least.wall = std::max(least.wall, head[rank] + work[rank]);
  }
  return least;
}

bool is_better(const OrderTime& a, const OrderTime& b) {
  if (a.span * kSame < b.span) return true;
  return a.span <= b.span * kSame && a.wall < b.wall;
}

}  // namespace

std::optional<std::string> refuse_auto(const ScheduleSpec& spec) {
  if (spec.memory_limit != 0 && !(spec.memory_limit >= 1 && std::isfinite(spec.memory_limit))) {
    return fmt::format("memory_limit must be at least 1 microbatch, not {}", spec.memory_limit);
  }
  if (!(spec.kept_for_weight >= 0 && spec.kept_for_weight <= 1)) {
    return fmt::format("kept_for_weight must be 0 to 1, not {}", spec.kept_for_weight);
  }
  const auto stages = static_cast<std::size_t>(spec.pp) * static_cast<std::size_t>(spec.chunks);
  if (!spec.stage_costs.empty() && spec.stage_costs.size() != stages) {
    return fmt::format("stage_costs must be one a stage, {}, not {}", stages, spec.stage_costs.size());
  }
  const std::vector<ChunkCosts> all = costs_of(spec);
  const auto is_cost = [](double cost) { return cost >= 0 && std::isfinite(cost); };
  for (const ChunkCosts& c : all) {
    if (is_cost(c.forward) && is_cost(c.dx) && is_cost(c.dw) && is_cost(c.p2p)) continue;
    return fmt::format("costs must be at least 0, not F = {}, dx = {}, dw = {}, p2p = {}", c.forward, c.dx, c.dw,
                       c.p2p);
  }
  return std::nullopt;
}

Schedule search(const ScheduleSpec& spec) {
  const std::vector<ChunkCosts> costs = costs_of(spec);
  const GreedyLimits limits{limit_of(spec) * spec.chunks, spec.kept_for_weight};
  std::optional<Candidate> best;
  const auto consider = [&](Schedule schedule) {
    const OrderTime time = time_order(schedule, costs);
    if (!best || is_better(time, best->time)) best = Candidate{std::move(schedule), time};
  };
  for (Schedule& schedule : fixed_schedules(spec)) {
    if (peak_chunks(schedule, limits.kept_for_weight) <= limits.peak_chunks) consider(std::move(schedule));
  }
  std::vector<Placement> placements = {Placement(PlacementKind::kLoop, spec.pp, spec.chunks)};
  if (spec.chunks == 2) placements.emplace_back(PlacementKind::kV, spec.pp, 2);
  const std::int64_t steps_of_one = std::int64_t{3} * spec.pp * spec.chunks * spec.num_microbatches;
  std::int64_t steps = 0;
  for (const Placement& placement : placements) {
    const OrderTime least = least_time(placement, costs, spec.num_microbatches);
    for (const GreedySettings& settings : all_settings(spec.pp)) {
      const bool at_best = best && best->time.span <= least.span * kSame && best->time.wall <= least.wall * kSame;
      if (at_best || (best && steps + steps_of_one > kMostSteps)) break;
      steps += steps_of_one;
      if (auto schedule = greedy_order(spec, placement, costs, limits, settings)) consider(std::move(*schedule));
    }
  }
  PPCTL_CHECK(best.has_value(), "no order of {} ranks keeps within {} chunks", spec.pp, limits.peak_chunks);
  return std::move(best->schedule);
}

}  // namespace ppctl::generate
