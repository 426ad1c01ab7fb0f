// What holds for every schedule and any costs.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <tuple>

#include "schedule/generator.hpp"
#include "schedule/pass.hpp"
#include "simulate/simulate.hpp"

namespace ppctl {
namespace {

/// A random schedule that its generator accepts, and random costs, one set a stage.
struct Case {
  Schedule schedule;
  CostModel costs;
};

double random_ms(int most) { return *rc::gen::inRange(1, most) * 0.125; }

Case random_case() {
  const auto all = generators();
  const GeneratorInfo& info = all[static_cast<std::size_t>(*rc::gen::inRange(0, static_cast<int>(all.size())))];
  ScheduleSpec spec;
  spec.name = info.name;
  spec.pp = *rc::gen::inRange(1, 9);
  spec.chunks = info.chunks_fixed ? info.default_chunks : *rc::gen::inRange(1, 4);
  spec.num_microbatches = *rc::gen::inRange(1, 20);
  RC_PRE(!info.refuse(spec));
  Case result;
  result.schedule = generate_schedule(spec);
  for (int stage = 0; stage < result.schedule.num_stages(); ++stage) {
    result.costs.stages.push_back({.forward_ms = random_ms(20), .dx_ms = random_ms(20), .dw_ms = random_ms(20)});
  }
  return result;
}

void check_totals(const Simulation& simulation) {
  for (const RankResult& rank : simulation.ranks) {
    RC_ASSERT(simulation.wall_ms >= rank.busy_ms - 1e-9);
    RC_ASSERT(simulation.span_ms >= rank.span_ms() - 1e-9);
    RC_ASSERT(std::abs(rank.busy_ms + rank.idle.total_ms() - simulation.wall_ms) < 1e-6);
  }
  RC_ASSERT(simulation.ideal_ms <= simulation.span_ms + 1e-9);
  RC_ASSERT(simulation.span_ms <= simulation.wall_ms + 1e-9);
}

/// Ends and starts of each step's work by (backward, stage, microbatch); what depends on it must not start earlier.
void check_causality(const Timeline& timeline, int num_stages) {
  std::map<std::tuple<bool, int, int>, std::pair<double, double>> spans;
  for (const auto& events : timeline.ranks) {
    double last_end = 0;
    for (const TimelineEvent& event : events) {
      if (event.lane != 0 || event.kind == EventKind::kWait) continue;
      RC_ASSERT(event.start_ms >= last_end - 1e-9);
      last_end = event.end_ms;
      if (event.kind == EventKind::kBackwardWeight) continue;
      const bool backward = event.kind != EventKind::kForward;
      const auto key = std::make_tuple(backward, event.stage.value, event.microbatch.value);
      RC_ASSERT(spans.emplace(key, std::make_pair(event.start_ms, event.end_ms)).second);
    }
  }
  for (const auto& [key, span] : spans) {
    const auto& [backward, stage, microbatch] = key;
    const bool first = backward ? stage == num_stages - 1 : stage == 0;
    if (backward) RC_ASSERT(spans.at({false, stage, microbatch}).second <= span.first + 1e-9);
    if (first) continue;
    RC_ASSERT(spans.at({backward, backward ? stage + 1 : stage - 1, microbatch}).second <= span.first + 1e-9);
  }
}

TEST(SimulateProperty, HoldsForEverySchedule) {
  EXPECT_TRUE(rc::check("totals and causality", [] {
    const Case c = random_case();
    const Simulation simulation = simulate(c.schedule, c.costs, {.timeline = true});
    check_totals(simulation);
    // Pairs of DualPipe run on two lanes and are looked at by its own tests.
    if (c.schedule.name.find("dualpipe") == std::string::npos) {
      check_causality(simulation.timeline, c.schedule.num_stages());
    }
  }));
}

TEST(SimulateProperty, TimesComputeStepsAndLoweredStepsAlike) {
  EXPECT_TRUE(rc::check("compute-only and lowered agree", [] {
    Case c = random_case();
    c.costs.p2p_ms = *rc::gen::element(0.0, 0.375);
    const bool pairs = c.schedule.name.find("dualpipe") != std::string::npos;
    RC_PRE(!pairs);
    const Simulation compute = simulate(c.schedule, c.costs);
    lower_schedule(c.schedule, {.overlap_p2p = *rc::gen::arbitrary<bool>()});
    const Simulation lowered = simulate(c.schedule, c.costs);
    RC_ASSERT(lowered.wall_ms == compute.wall_ms);
    RC_ASSERT(lowered.span_ms == compute.span_ms);
    RC_ASSERT(lowered.p2p_messages == compute.p2p_messages);
    for (std::size_t rank = 0; rank < compute.ranks.size(); ++rank) {
      RC_ASSERT(lowered.ranks[rank].peak_chunks == compute.ranks[rank].peak_chunks);
    }
  }));
}

}  // namespace
}  // namespace ppctl
