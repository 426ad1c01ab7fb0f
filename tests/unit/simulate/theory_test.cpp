#include "simulate/theory.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "simulate/simulate.hpp"

namespace ppctl {
namespace {

struct Compared {
  int num_cases = 0;
};

/// Simulates one schedule for p = 2 .. 16, several v, m and costs, and holds it against the formulas where there are
/// any.
Compared compare_with_theory(const std::string& name) {
  const GeneratorInfo& info = *find_generator(name);
  Compared compared;
  for (const ChunkCosts costs : {ChunkCosts{1, 1, 1, 0}, ChunkCosts{2, 2, 1, 0}, ChunkCosts{2, 3, 1, 0}}) {
    for (const int pp : {2, 3, 4, 5, 6, 7, 8, 12, 16}) {
      for (const int m : {1, pp - 1, pp, pp + 1, 2 * pp, 2 * pp + 1, 3 * pp, 4 * pp}) {
        for (int chunks = 1; chunks <= 4; ++chunks) {
          ScheduleSpec spec;
          spec.name = name;
          spec.pp = pp;
          spec.chunks = chunks;
          spec.num_microbatches = m;
          if (m < 1 || (info.chunks_fixed && chunks != info.default_chunks) || info.refuse(spec)) continue;
          const Schedule schedule = generate_schedule(spec);
          const double pair = costs.forward + costs.dx + costs.dw;
          const auto theory = schedule_theory(name, pp, chunks, m, costs, pair);
          if (!theory) continue;
          const StageCosts stage{.forward_ms = costs.forward, .dx_ms = costs.dx, .dw_ms = costs.dw};
          const Simulation simulation = simulate(schedule, uniform_costs(schedule.num_stages(), stage));
          const std::string where =
              fmt::format("{} p={} v={} m={} F={} I={} W={}", name, pp, chunks, m, costs.forward, costs.dx, costs.dw);
          if (theory->bubble_wall_ms && theory->at_most) {
            EXPECT_LE(simulation.wall_ms - simulation.ideal_ms, *theory->bubble_wall_ms + 1e-9) << where;
          } else if (theory->bubble_wall_ms) {
            EXPECT_NEAR(simulation.wall_ms - simulation.ideal_ms, *theory->bubble_wall_ms, 1e-9) << where;
          }
          if (theory->bubble_span_ms) {
            EXPECT_NEAR(simulation.span_ms - simulation.ideal_ms, *theory->bubble_span_ms, 1e-9) << where;
          }
          const auto peak =
              std::max_element(simulation.ranks.begin(), simulation.ranks.end(),
                               [](const RankResult& a, const RankResult& b) { return a.peak_chunks < b.peak_chunks; });
          EXPECT_EQ(peak->peak_chunks, theory->peak_chunks.value()) << where;
          ++compared.num_cases;
        }
      }
    }
  }
  return compared;
}

TEST(Theory, HoldsForGpipe) { EXPECT_GT(compare_with_theory("gpipe").num_cases, 150); }
TEST(Theory, HoldsFor1F1B) { EXPECT_GT(compare_with_theory("1f1b").num_cases, 150); }
TEST(Theory, HoldsForInterleaved1F1B) { EXPECT_GT(compare_with_theory("interleaved_1f1b").num_cases, 400); }
TEST(Theory, HoldsForLoopedBfs) { EXPECT_GT(compare_with_theory("looped_bfs").num_cases, 400); }
TEST(Theory, HoldsForInterleavedZb) { EXPECT_GT(compare_with_theory("interleaved_zb").num_cases, 200); }
TEST(Theory, HoldsForZbH1) { EXPECT_GT(compare_with_theory("zb_h1").num_cases, 100); }
TEST(Theory, HoldsForZbH2) { EXPECT_GT(compare_with_theory("zb_h2").num_cases, 60); }
TEST(Theory, HoldsForZbV) { EXPECT_GT(compare_with_theory("zb_v").num_cases, 60); }
TEST(Theory, HoldsForDualPipeV) { EXPECT_GT(compare_with_theory("dualpipe_v").num_cases, 40); }
TEST(Theory, HoldsForDualPipe) { EXPECT_GT(compare_with_theory("dualpipe").num_cases, 20); }
TEST(Theory, HoldsForVHalf) { EXPECT_GT(compare_with_theory("v_half").num_cases, 10); }

TEST(Theory, BoundsVMin) { EXPECT_GT(compare_with_theory("v_min").num_cases, 10); }

TEST(Theory, SaysNothingWhereItsConditionsDoNotHold) {
  const ChunkCosts heavy_weight{1, 1, 2, 0};
  EXPECT_FALSE(schedule_theory("zb_h1", 4, 1, 8, heavy_weight, 4));
  EXPECT_FALSE(schedule_theory("interleaved_1f1b", 4, 2, 3, {}, 3));
  EXPECT_FALSE(schedule_theory("auto", 4, 1, 8, {}, 3));
  EXPECT_FALSE(schedule_theory("a file", 4, 1, 8, {}, 3));
}

TEST(Theory, GivesTheFractionOfGpipe) {
  const auto theory = schedule_theory("gpipe", 4, 1, 8, {1, 1, 1, 0}, 3);
  ASSERT_TRUE(theory);
  EXPECT_EQ(theory->bubble_wall_ms, 9);
  EXPECT_EQ(theory->bubble_formula, "(p-1)(F+B)");
  EXPECT_EQ(theory->peak_chunks, 8);
}

}  // namespace
}  // namespace ppctl
