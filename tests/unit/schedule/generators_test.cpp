#include "schedule/generator.hpp"

#include <gtest/gtest.h>

#include <set>

#include "base/error.hpp"
#include "unit/schedule/schedule_cases.hpp"

namespace ppctl {
namespace {

std::string refusal(const ScheduleSpec& spec) {
  try {
    generate_schedule(spec);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

/// Forwards that a rank runs before its first backward, the one that precedes it in the steady state not counted.
int warmup_of(const Schedule& schedule, int r) {
  int forwards = 0;
  for (const MetaStep step : schedule.ranks[static_cast<std::size_t>(r)].steps) {
    if (step.type() != MetaStepType::FORWARD) break;
    ++forwards;
  }
  return forwards - 1;
}

TEST(Generators, HaveNamesOfTheirOwnAndASummary) {
  std::set<std::string_view> names;
  for (const GeneratorInfo& info : generators()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_FALSE(info.summary.empty()) << info.name;
    EXPECT_EQ(find_generator(info.name), &info);
  }
  EXPECT_EQ(names.size(), 13U);
  EXPECT_EQ(find_generator("zb"), nullptr);
}

TEST(Generators, TakeTheirOwnNumberOfChunksUnlessTold) {
  EXPECT_EQ(generate_schedule({.name = "zb_v", .pp = 2, .num_microbatches = 4}).placement,
            Placement(PlacementKind::kV, 2, 2));
  EXPECT_EQ(generate_schedule({.name = "1f1b", .pp = 2, .num_microbatches = 4}).placement.chunks(), 1);
  EXPECT_EQ(generate_schedule({.name = "looped_bfs", .pp = 2, .chunks = 3, .num_microbatches = 4}).num_stages(), 6);
}

TEST(Generators, WarmUp1F1BByRank) {
  for (const int m : {1, 2, 3, 8}) {
    const Schedule schedule = generate_schedule({.name = "1f1b", .pp = 4, .num_microbatches = m});
    for (int r = 0; r < 4; ++r) EXPECT_EQ(warmup_of(schedule, r), std::min(3 - r, m - 1)) << m << " " << r;
  }
}

TEST(Generators, WarmUpInterleavedByRoundsAndRank) {
  // m = 10, p = 4: two rounds of 5. m = 11: rounds of 6 and 5. m = 3: one round of 3.
  for (const auto& [m, k] : {std::pair{10, 5}, std::pair{11, 6}, std::pair{3, 3}, std::pair{16, 4}}) {
    const Schedule schedule =
        generate_schedule({.name = "interleaved_1f1b", .pp = 4, .chunks = 3, .num_microbatches = m});
    for (int r = 0; r < 4; ++r) {
      EXPECT_EQ(warmup_of(schedule, r), std::min(2 * k + 2 * (3 - r), 3 * m - 1)) << m << " " << r;
    }
  }
}

TEST(Generators, WarmUpInterleavedLessWithLessMemory) {
  const Schedule schedule =
      generate_schedule({.name = "interleaved_1f1b", .pp = 4, .chunks = 2, .num_microbatches = 8, .less_memory = true});
  for (int r = 0; r < 4; ++r) EXPECT_EQ(warmup_of(schedule, r), 4 + 3 - r) << r;
}

TEST(Generators, WarmUpGroupsByTheirSize) {
  const Schedule schedule =
      generate_schedule({.name = "interleaved_1f1b", .pp = 4, .chunks = 2, .num_microbatches = 16, .group = 6});
  for (int r = 0; r < 4; ++r) EXPECT_EQ(warmup_of(schedule, r), 6 + 2 * (3 - r)) << r;
  EXPECT_EQ(format_step(schedule.ranks[0].steps[6]), "4F0");  // the second chunk follows the sixth microbatch
}

TEST(Generators, WarmUpZeroBubbleOnceAndTwice) {
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(warmup_of(generate_schedule({.name = "zb_h1", .pp = 4, .num_microbatches = 8}), r), 3 - r);
    EXPECT_EQ(warmup_of(generate_schedule({.name = "zb_h2", .pp = 4, .num_microbatches = 8}), r), 2 * (3 - r));
  }
}

TEST(Generators, RunOneRankAndOneMicrobatch) {
  for (const GeneratorInfo& info : generators()) {
    const ScheduleSpec spec{
        .name = std::string(info.name), .pp = 1, .chunks = info.default_chunks, .num_microbatches = 1};
    if (info.name == "dualpipe" || info.name == "dualpipe_v") continue;
    const Schedule schedule = generate_schedule(spec);
    EXPECT_EQ(schedule.ranks.at(0).steps.size(),
              static_cast<std::size_t>(info.default_chunks * (info.splits_backward ? 3 : 2)))
        << info.name;
  }
}

TEST(Generators, SuggestTheNameThatWasMeant) {
  EXPECT_EQ(refusal({.name = "zb_h"}),
            "unknown schedule 'zb_h' (did you mean 'zb_h1'?); schedules are: gpipe, 1f1b, interleaved_1f1b, "
            "looped_bfs, zb_h1, "
            "zb_h2, interleaved_zb, zb_v, v_half, v_min, dualpipe, dualpipe_v, auto");
}

TEST(Generators, RefuseWhatTheyCannotDoInOneLine) {
  EXPECT_EQ(refusal({.name = "1f1b", .pp = 0}), "schedule 1f1b: pp must be 1 to 65535, not 0");
  EXPECT_EQ(refusal({.name = "1f1b", .pp = 2, .num_microbatches = 0}),
            "schedule 1f1b: microbatches must be 1 to 16777215, not 0");
  EXPECT_EQ(refusal({.name = "1f1b", .pp = 2, .chunks = 2}), "schedule 1f1b: chunks must be 1, not 2");
  EXPECT_EQ(refusal({.name = "zb_v", .pp = 2, .chunks = 3}), "schedule zb_v: chunks must be 2, not 3");
  EXPECT_EQ(refusal({.name = "looped_bfs", .pp = 1000, .chunks = 66}),
            "schedule looped_bfs: chunks must be 1 to 65 with pp = 1000 (at most 65535 stages), not 66");
  EXPECT_EQ(refusal({.name = "looped_bfs", .pp = 1000, .chunks = 2, .num_microbatches = 16'000'000}),
            "schedule looped_bfs: pp x chunks x microbatches must be at most 1000000000, not 32000000000");
  EXPECT_EQ(refusal({.name = "gpipe", .group = 2}), "schedule gpipe: group is an option of interleaved_1f1b alone");
  EXPECT_EQ(refusal({.name = "zb_h1", .less_memory = true}),
            "schedule zb_h1: less_memory is an option of interleaved_1f1b alone");
  EXPECT_EQ(refusal({.name = "zb_h1", .memory_limit = 3}), "schedule zb_h1: memory_limit is an option of auto alone");
}

TEST(Generators, SayHowManyMicrobatchesDualPipeNeeds) {
  EXPECT_EQ(refusal({.name = "dualpipe_v", .pp = 4, .num_microbatches = 7}),
            "schedule dualpipe_v: microbatches must be at least 2 pp = 8, not 7");
  EXPECT_EQ(refusal({.name = "dualpipe", .pp = 4, .num_microbatches = 9}),
            "schedule dualpipe: microbatches must be even and at least 2 pp = 8, not 9");
  EXPECT_EQ(refusal({.name = "dualpipe", .pp = 3, .num_microbatches = 12}),
            "schedule dualpipe: pp must be even, not 3");
}

TEST(Generators, RefuseGroupsThatWouldWaitForEver) {
  EXPECT_EQ(refusal({.name = "interleaved_1f1b", .pp = 4, .num_microbatches = 16, .group = 3}),
            "schedule interleaved_1f1b: group must be pp to microbatches (4 to 16), not 3");
  EXPECT_EQ(refusal({.name = "interleaved_1f1b", .pp = 4, .num_microbatches = 3, .group = 3}),
            "schedule interleaved_1f1b: group needs at least pp = 4 microbatches, not 3");
  EXPECT_EQ(refusal({.name = "interleaved_1f1b", .pp = 5, .num_microbatches = 7, .group = 5}),
            "schedule interleaved_1f1b: group must leave no or at least 3 of the 7 microbatches for the last group; 5 "
            "leaves 2");
}

TEST(Generators, RefuseLimitsAndCostsThatMeanNothing) {
  EXPECT_EQ(refusal({.name = "auto", .pp = 2, .memory_limit = 0.5}),
            "schedule auto: memory_limit must be at least 1 microbatch, not 0.5");
  EXPECT_EQ(refusal({.name = "auto", .pp = 2, .kept_for_weight = 2}),
            "schedule auto: kept_for_weight must be 0 to 1, not 2");
  EXPECT_EQ(refusal({.name = "auto", .pp = 2, .costs = {.forward = -1}}),
            "schedule auto: costs must be at least 0, not F = -1, dx = 1, dw = 1, p2p = 0");
  EXPECT_EQ(refusal({.name = "auto", .pp = 2, .stage_costs = {ChunkCosts{}}}),
            "schedule auto: stage_costs must be one a stage, 2, not 1");
}

TEST(Generators, SearchWithinTheLimitWhenAllIsKeptForTheWeight) {
  for (const double limit : {1.0, 2.0, 3.5, 8.0}) {
    const Schedule schedule = generate_schedule(
        {.name = "auto", .pp = 4, .chunks = 1, .num_microbatches = 12, .memory_limit = limit, .kept_for_weight = 1});
    for (const RankSteps& rank : schedule.ranks) {
      int held = 0;
      for (const MetaStep step : rank.steps) {
        held += step.type() == MetaStepType::FORWARD ? 1 : step.type() == MetaStepType::BACKWARD_WEIGHT ? -1 : 0;
        EXPECT_LE(held, limit);
      }
    }
  }
}

}  // namespace
}  // namespace ppctl
