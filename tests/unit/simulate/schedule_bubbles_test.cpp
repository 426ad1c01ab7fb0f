// The bubbles and peaks that the schedules' papers give, where they are more than the formulas of theory_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>

#include "simulate/simulate.hpp"

namespace ppctl {
namespace {

struct Costs {
  double forward = 1;
  double dx = 1;
  double dw = 1;
  double pair_factor = 1;  ///< of an overlapped pair
};

Simulation run(const ScheduleSpec& spec, const Costs& costs = {}) {
  const Schedule schedule = generate_schedule(spec);
  const StageCosts stage{.forward_ms = costs.forward, .dx_ms = costs.dx, .dw_ms = costs.dw};
  CostModel model = uniform_costs(schedule.num_stages(), stage);
  model.overlap_factor = costs.pair_factor;
  return simulate(schedule, model);
}

double wall_bubble(const Simulation& simulation) { return simulation.wall_ms - simulation.ideal_ms; }
double span_bubble(const Simulation& simulation) { return simulation.span_ms - simulation.ideal_ms; }

int peak(const Simulation& simulation) {
  int most = 0;
  for (const RankResult& rank : simulation.ranks) most = std::max(most, rank.peak_chunks);
  return most;
}

TEST(ScheduleBubbles, OfGroupsDependOnTheLastOne) {
  // p = 4, m = 16, v = 2, F = 1, B = 2
  for (const auto& [group, bubble] : {std::pair{4, 9}, {6, 9}, {8, 9}, {5, 19}, {7, 14}}) {
    EXPECT_EQ(
        wall_bubble(run({.name = "interleaved_1f1b", .pp = 4, .chunks = 2, .num_microbatches = 16, .group = group})),
        bubble)
        << group;
  }
}

TEST(ScheduleBubbles, OfInterleavedAreLargerWithFewerMicrobatchesThanRanks) {
  EXPECT_EQ(wall_bubble(run({.name = "interleaved_1f1b", .pp = 4, .chunks = 2, .num_microbatches = 3})), 12);
}

TEST(ScheduleBubbles, OfLessMemoryAreTheSameAtASmallerPeak) {
  const Simulation usual = run({.name = "interleaved_1f1b", .pp = 4, .chunks = 2, .num_microbatches = 16});
  const Simulation less =
      run({.name = "interleaved_1f1b", .pp = 4, .chunks = 2, .num_microbatches = 16, .less_memory = true});
  EXPECT_EQ(wall_bubble(usual), 9);
  EXPECT_EQ(wall_bubble(less), 9);
  EXPECT_EQ(peak(usual), 11);
  EXPECT_EQ(peak(less), 8);
}

TEST(ScheduleBubbles, OfZeroBubbleVAreNoneWithinARankWhereCostsAreEqual) {
  for (const int pp : {2, 4, 8, 16}) {
    for (const int m : {2 * pp - 1, 2 * pp, 3 * pp + 1}) {
      const Simulation simulation = run({.name = "zb_v", .pp = pp, .num_microbatches = m});
      EXPECT_EQ(span_bubble(simulation), 0) << pp << " " << m;
      EXPECT_EQ(peak(simulation), 2 * pp) << pp << " " << m;
    }
  }
  EXPECT_EQ(wall_bubble(run({.name = "zb_v", .pp = 4, .num_microbatches = 4})), 6);
}

TEST(ScheduleBubbles, OfZeroBubbleVFollowTheLongerOfForwardAndInput) {
  // (p - 1)(2 max(F, I) - 2W)
  const Costs costs{.forward = 1, .dx = 1.25, .dw = 0.75};
  for (const int pp : {2, 4, 8}) {
    EXPECT_NEAR(span_bubble(run({.name = "zb_v", .pp = pp, .num_microbatches = 3 * pp}, costs)), (pp - 1) * (2.5 - 1.5),
                1e-9)
        << pp;
  }
}

TEST(ScheduleBubbles, OfVHalfAndVMinAreThoseOfTheirPaperOrLess) {
  for (const int pp : {4, 6, 8, 12}) {
    for (const int m : {2 * pp, 3 * pp, 4 * pp}) {
      const Simulation half = run({.name = "v_half", .pp = pp, .num_microbatches = m});
      EXPECT_EQ(wall_bubble(half), 3 * pp - 7) << pp << " " << m;
      EXPECT_EQ(peak(half), 2 * ((pp + 2) / 2)) << pp << " " << m;
      const Simulation min = run({.name = "v_min", .pp = pp, .num_microbatches = m});
      EXPECT_LE(wall_bubble(min), pp % 3 == 0 ? 4 * pp - 7 : 4 * pp - 5) << pp << " " << m;
      EXPECT_EQ(peak(min), 2 * ((pp + 4) / 3)) << pp << " " << m;
    }
  }
}

/// The longest wait of a rank: wall less what it computes.
double worst_rank(const Simulation& simulation) {
  double worst = 0;
  for (const RankResult& rank : simulation.ranks) worst = std::max(worst, simulation.wall_ms - rank.busy_ms);
  return worst;
}

TEST(ScheduleBubbles, OfDualPipeVShrinkWithThePair) {
  for (const int pp : {2, 4, 8}) {
    for (const double factor : {1.0, 0.8, 0.7}) {
      // (p - 1)(F&B + B - 3W), F = I = W = 1: a pair takes 3 factor
      const Simulation simulation =
          run({.name = "dualpipe_v", .pp = pp, .num_microbatches = 3 * pp}, {.pair_factor = factor});
      EXPECT_NEAR(worst_rank(simulation), (pp - 1) * (3 * factor + 2 - 3), 1e-9) << pp << " " << factor;
      EXPECT_EQ(peak(simulation), 2 * pp + 1) << pp;
    }
  }
}

TEST(ScheduleBubbles, OfDualPipeAreThoseOfHalfThePipeline) {
  for (const int pp : {2, 4, 8, 16}) {
    const Simulation simulation = run({.name = "dualpipe", .pp = pp, .num_microbatches = 3 * pp});
    EXPECT_EQ(wall_bubble(simulation), (pp / 2 - 1) * (3 + 2 - 3)) << pp;
    EXPECT_EQ(peak(simulation), pp + 1) << pp;
  }
}

TEST(ScheduleBubbles, OfTheSearchAreNoneWhereThereIsRoom) {
  for (const int chunks : {1, 2, 3}) {
    const Simulation simulation = run({.name = "auto", .pp = 4, .chunks = chunks, .num_microbatches = 16});
    EXPECT_EQ(span_bubble(simulation), 0) << chunks;
  }
}

TEST(ScheduleBubbles, OfTheSearchFallWithTheMemory) {
  double last = 1e9;
  for (const double limit : {1.0, 2.0, 4.0, 6.0, 8.0}) {
    const double bubble = span_bubble(run({.name = "auto", .pp = 4, .num_microbatches = 16, .memory_limit = limit}));
    EXPECT_LE(bubble, last) << limit;
    last = bubble;
  }
  EXPECT_EQ(last, 0);
}

TEST(ScheduleBubbles, OfTheSearchTakeUnequalStagesIntoAccount) {
  // The last stage has a head; what is best for equal stages is not best here.
  std::vector<ChunkCosts> stages(4);
  stages[3] = {.forward = 1.6, .dx = 1.4, .dw = 1.2};
  ScheduleSpec spec{.name = "auto", .pp = 4, .num_microbatches = 12};
  spec.stage_costs = stages;
  CostModel model = uniform_costs(4, {.forward_ms = 1, .dx_ms = 1, .dw_ms = 1});
  model.stages[3] = {.forward_ms = 1.6, .dx_ms = 1.4, .dw_ms = 1.2};
  const double searched = simulate(generate_schedule(spec), model).span_ms;
  for (const char* fixed : {"1f1b", "zb_h1", "zb_h2"}) {
    EXPECT_LE(searched,
              simulate(generate_schedule({.name = fixed, .pp = 4, .num_microbatches = 12}), model).span_ms + 1e-9)
        << fixed;
  }
  EXPECT_NEAR(searched, 12 * 4.2, 1e-9);  // the last rank never waits
}

}  // namespace
}  // namespace ppctl
