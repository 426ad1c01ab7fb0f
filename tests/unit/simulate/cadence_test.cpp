#include "simulate/cadence.hpp"

#include <gtest/gtest.h>

#include "schedule/generator.hpp"
#include "simulate/simulate.hpp"

namespace ppctl {
namespace {

Cadence cadence_of(const char* name, double optimizer_ms = 0) {
  const Schedule schedule = generate_schedule({.name = name, .pp = 4, .num_microbatches = 12});
  return step_cadence(schedule, uniform_costs(schedule.num_stages(), {.forward_ms = 1, .dx_ms = 1, .dw_ms = 1}),
                      optimizer_ms);
}

TEST(Cadence, OfSpanZeroSchedulesHasNoBubbleWithPostValidation) {
  for (const char* name : {"zb_h2", "zb_v"}) {
    const Cadence cadence = cadence_of(name);
    EXPECT_GT(cadence.bubble_barrier(), 0.03) << name;
    EXPECT_NEAR(cadence.bubble_post_validation(), 0, 1e-9) << name;
  }
  EXPECT_EQ(cadence_of("zb_h2").barrier_ms, 39);
  EXPECT_EQ(cadence_of("zb_h2").post_validation_ms, 36);
}

TEST(Cadence, OfAScheduleThatEndsOnRankZeroIsTheSameEitherWay) {
  for (const char* name : {"gpipe", "1f1b"}) {
    const Cadence cadence = cadence_of(name);
    EXPECT_NEAR(cadence.post_validation_ms, cadence.barrier_ms, 1e-9) << name;
  }
}

TEST(Cadence, CountsTheOptimizerOnce) {
  const Cadence cadence = cadence_of("zb_h2", 2);
  EXPECT_EQ(cadence.barrier_ms, 41);
  EXPECT_EQ(cadence.post_validation_ms, 38);
  EXPECT_EQ(cadence.ideal_ms, 38);
}

TEST(Simulate, BeginsEachRankWhenItIsTold) {
  const Schedule schedule = generate_schedule({.name = "1f1b", .pp = 2, .num_microbatches = 1});
  const CostModel costs = uniform_costs(2, {.forward_ms = 1, .dx_ms = 1, .dw_ms = 1});
  SimulateOptions options;
  options.start_ms = {2, 10};
  const Simulation simulation = simulate(schedule, costs, options);
  EXPECT_EQ(simulation.ranks[0].first_ms, 2);
  EXPECT_EQ(simulation.ranks[1].first_ms, 10);
  EXPECT_EQ(simulation.wall_ms, 15);
}

}  // namespace
}  // namespace ppctl
