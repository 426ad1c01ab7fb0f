#include "runtime/overlap_bench.hpp"

#include <gtest/gtest.h>

#include "schedule/generator.hpp"
#include "schedule/pass.hpp"

namespace ppctl {
namespace {

OverlapCase small_case(bool overlap) {
  ScheduleSpec spec;
  spec.name = "interleaved_1f1b";
  spec.pp = 2;
  spec.chunks = 2;
  spec.num_microbatches = 4;
  OverlapCase bench;
  bench.schedule = generate_schedule(spec);
  PassOptions passes;
  passes.overlap_b_f = passes.overlap_p2p = passes.duplex = overlap;
  lower_schedule(bench.schedule, passes);
  bench.layers.assign(2, TimedLayer{0.2, 0.2, 0.4, 0.4});
  bench.exchange_ms = 0.1;
  bench.message_ms = 0.1;
  bench.two_threads = overlap;
  bench.measured_steps = 1;
  return bench;
}

TEST(OverlapBench, AccountsForEveryStepExchangeAndMessage) {
  for (const bool overlap : {false, true}) {
    SCOPED_TRACE(overlap ? "overlapped" : "one after the other");
    const OverlapCase bench = small_case(overlap);
    const OverlapMeasurement got = measure_overlap_inproc(bench);
    ASSERT_EQ(got.pipelines.size(), 2u);
    for (const Timeline& pipeline : got.pipelines) {
      ASSERT_EQ(pipeline.ranks.size(), 2u);
      for (const auto& rank : pipeline.ranks) {
        int work = 0;
        double compute_ms = 0;
        for (const TimelineEvent& event : rank) {
          const bool forward = event.kind == EventKind::kForward;
          const bool backward = event.kind == EventKind::kBackward || event.kind == EventKind::kOverlapped;
          work += forward || backward;
          // A step takes at least what its layers compute and, alone, what its exchanges take.
          if (forward) {
            EXPECT_GE(event.end_ms - event.start_ms, 0.8);
          }
          if (backward) {
            EXPECT_GE(event.end_ms - event.start_ms, 1.6);
          }
          if (forward && !overlap) {
            EXPECT_GE(event.end_ms - event.start_ms, 0.8 + 0.4);
          }
          compute_ms += forward ? 0.8 : backward ? 1.6 : 0.0;
        }
        EXPECT_EQ(work, 2 * 2 * 4);
        EXPECT_GE(got.wall_ms, compute_ms) << "a rank computes one thing at a time";
      }
    }
    EXPECT_GT(got.exchange.total_ms, 0);
    EXPECT_GT(got.p2p.total_ms, 0);
    EXPECT_LE(got.exchange.hidden(), 1.0);
    EXPECT_LE(got.p2p.hidden(), 1.0);
  }
}

}  // namespace
}  // namespace ppctl
