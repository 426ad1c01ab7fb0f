#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/error.hpp"
#include "schedule/verify.hpp"
#include "unit/schedule/any_schedule.hpp"

namespace ppctl {
namespace {

TEST(PassCombinations, OfEveryScheduleVerifyWhereTheyAreAccepted) {
  int accepted = 0;
  const bool holds = rc::check([&] {
    const ScheduleSpec spec = testing::any_spec();
    const Schedule generated = generate_schedule(spec);
    for (int passes = 0; passes < 64; ++passes) {
      const PassOptions options = testing::any_options(passes);
      Schedule schedule = generated;
      try {
        lower_schedule(schedule, options);
      } catch (const Error& error) {
        const std::string text = error.what();
        RC_ASSERT(text.starts_with("split_backward: ") || text.starts_with("overlap_b_f: "));
        continue;
      }
      ++accepted;
      const VerifyResult result = verify_schedule(schedule, {.fsdp = options.fsdp});
      if (!result.ok()) RC_FAIL(testing::describe(spec, options) + ": " + result.faults.front().text());
    }
  });
  EXPECT_TRUE(holds);
  EXPECT_GT(accepted, 1000);
}

// Which combinations are refused does not depend on chance: only what cannot be done.
TEST(PassCombinations, AreRefusedOnlyWhereBackwardsAreSplitOrNothingPairs) {
  EXPECT_TRUE(rc::check([] {
    const ScheduleSpec spec = testing::any_spec();
    const Schedule generated = generate_schedule(spec);
    for (int passes = 0; passes < 64; ++passes) {
      const PassOptions options = testing::any_options(passes);
      Schedule schedule = generated;
      const bool whole = !find_generator(spec.name)->splits_backward;
      const bool may_refuse = (options.split_backward && !whole) || options.overlap_b_f;
      if (may_refuse) continue;
      lower_schedule(schedule, options);
    }
  }));
}

}  // namespace
}  // namespace ppctl
