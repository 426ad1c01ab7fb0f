#include "runtime/bubble_bench.hpp"

#include <gtest/gtest.h>

#include "comm/inproc.hpp"
#include "schedule/generator.hpp"
#include "support/divided_encoder.hpp"

namespace ppctl {
namespace {

BubbleCase bench_of(const std::string& name, int pp, int m, StageTimes times) {
  ScheduleSpec spec;
  spec.name = name;
  spec.pp = pp;
  spec.num_microbatches = m;
  BubbleCase bench;
  bench.schedule = generate_schedule(spec);
  lower_schedule(bench.schedule, PassOptions());
  bench.stages.assign(static_cast<std::size_t>(bench.schedule.num_stages()), times);
  return bench;
}

TEST(PreciseSleeper, NeverWakesEarly) {
  PreciseSleeper sleeper;
  for (int i = 0; i < 40; ++i) {
    const Nanoseconds until = monotonic_now() + 500'000;
    sleeper.sleep_until(until);
    EXPECT_GE(monotonic_now(), until);
  }
}

TEST(BubbleBench, MeasuresTheBubbleOf1F1B) {
  const BubbleMeasurement measured = measure_bubble_inproc(bench_of("1f1b", 4, 8, {5, 5, 5}));
  EXPECT_EQ(measured.ideal_ms, 120);
  // (p - 1) / (m + p - 1); a loaded machine only makes it longer.
  EXPECT_GT(measured.bubble_wall(), 3.0 / 11 - 0.001);
  EXPECT_LT(measured.bubble_wall(), 0.9);
  ASSERT_EQ(measured.ranks.size(), 4u);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(measured.ranks[static_cast<std::size_t>(rank)].peak_chunks, 4 - rank);
    EXPECT_EQ(measured.timeline.ranks[static_cast<std::size_t>(rank)].empty(), false);
  }
}

TEST(BubbleBench, AccountsForAllOfARanksTime) {
  const BubbleMeasurement measured = measure_bubble_inproc(bench_of("zb_h1", 3, 4, {2, 2, 2}));
  for (const MeasuredRank& rank : measured.ranks) {
    double sum = rank.busy_ms + rank.warmup_ms + rank.drain_ms + rank.overhead_ms;
    for (const MeasuredWait& wait : rank.waits) sum += wait.ms;
    EXPECT_NEAR(sum, measured.wall_ms, 1e-6);
    EXPECT_GE(rank.overhead_ms, 0);
  }
}

TEST(BubbleBench, TimesTheHalvesOfAnEncodersBackwardApart) {
  ScheduleSpec spec{.name = "1f1b", .pp = 2, .num_microbatches = 4};
  PassOptions passes;
  passes.mpipe.enabled = true;
  Schedule schedule = generate_schedule(spec);
  lower_schedule(schedule, passes);
  BubbleCase bench;
  bench.schedule = test::with_divided_encoder(std::move(schedule));
  bench.stages.assign(2, {2, 2, 2});
  bench.encoder = StageTimes{1, 3, 2};
  const BubbleMeasurement measured = measure_bubble_inproc(bench);
  EXPECT_EQ(measured.ideal_ms, 4 * 6 + 2 * 6);
  EXPECT_GE(measured.wall_ms, measured.ideal_ms);
  int halves = 0;
  for (const TimelineEvent& event : measured.timeline.ranks[1]) {
    const bool input = event.kind == EventKind::kEncoderBackwardInput;
    if (!input && event.kind != EventKind::kEncoderBackwardWeight) continue;
    EXPECT_GE(event.end_ms - event.start_ms, input ? 3 : 2);
    ++halves;
  }
  EXPECT_EQ(halves, 4);
}

TEST(BubbleBench, LeavesRanksBeyondThePipelineAlone) {
  const BubbleCase bench = bench_of("gpipe", 2, 2, {1, 1, 1});
  run_inproc(3, [&](Communicator& communicator) {
    const BubbleMeasurement measured = measure_bubble(communicator, bench);
    EXPECT_EQ(measured.ranks.size(), communicator.transport().rank() == 0 ? 2u : 0u);
  });
}

}  // namespace
}  // namespace ppctl
