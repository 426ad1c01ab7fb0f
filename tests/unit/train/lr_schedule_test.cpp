#include "train/lr_schedule.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "support/temporary_folder.hpp"

namespace ppctl {
namespace {

using test::text_of;

LrScheduleConfig config_of(const std::string& kind, int warmup, double final_ratio = 0.0, int decay = 0) {
  LrScheduleConfig config;
  config.kind = kind;
  config.warmup_steps = warmup;
  config.final_ratio = final_ratio;
  config.decay_steps = decay;
  return config;
}

TEST(LrSchedule, WarmsUpFromTheFirstStepOn) {
  const LrSchedule schedule(config_of("constant", 5), 1e-3, 20);
  EXPECT_DOUBLE_EQ(schedule.at(0), 2e-4);
  EXPECT_DOUBLE_EQ(schedule.at(3), 8e-4);
  EXPECT_DOUBLE_EQ(schedule.at(4), 1e-3);
  EXPECT_DOUBLE_EQ(schedule.at(19), 1e-3);
}

TEST(LrSchedule, WithoutWarmUpStartsAtTheFullRate) {
  EXPECT_DOUBLE_EQ(LrSchedule(config_of("constant", 0), 0.5, 10).at(0), 0.5);
}

TEST(LrSchedule, LinearFallsFromTheEndOfTheWarmUpToTheFinalRatio) {
  const LrSchedule schedule(config_of("linear", 10, 0.1), 1.0, 110);
  EXPECT_DOUBLE_EQ(schedule.at(9), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(10), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(60), 0.55);
  EXPECT_NEAR(schedule.at(109), 0.109, 1e-12);
  EXPECT_DOUBLE_EQ(schedule.at(500), 0.1);
}

TEST(LrSchedule, CosineIsHalfwayInTheMiddle) {
  const LrSchedule schedule(config_of("cosine", 0, 0.2), 1.0, 100);
  EXPECT_DOUBLE_EQ(schedule.at(0), 1.0);
  EXPECT_NEAR(schedule.at(50), 0.6, 1e-12);
  EXPECT_NEAR(schedule.at(25), 0.2 + 0.8 * 0.5 * (1.0 + std::sqrt(0.5)), 1e-12);
  EXPECT_NEAR(schedule.at(100), 0.2, 1e-12);
}

TEST(LrSchedule, WsdIsStableAndThenDecays) {
  const LrSchedule schedule(config_of("wsd", 10, 0.0, 20), 1.0, 100);
  EXPECT_DOUBLE_EQ(schedule.at(4), 0.5);
  EXPECT_DOUBLE_EQ(schedule.at(79), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(80), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(90), 0.5);
  EXPECT_NEAR(schedule.at(99), 0.05, 1e-12);
}

TEST(LrSchedule, TakesItsOwnLengthBeforeTheJobs) {
  LrScheduleConfig config = config_of("linear", 0);
  config.total_steps = 200;
  EXPECT_DOUBLE_EQ(LrSchedule(config, 1.0, 10).at(100), 0.5);
}

TEST(LrSchedule, RefusesWhatDoesNotFit) {
  EXPECT_EQ(text_of<Error>([] { LrSchedule(config_of("steps", 0), 1.0, 10); }),
            "lr_schedule.kind is 'steps'; it must be constant, linear, cosine or wsd");
  LrScheduleConfig cosine = config_of("cosine", 11);
  cosine.total_steps = 10;
  EXPECT_EQ(text_of<Error>([&] { LrSchedule(cosine, 1.0, 20); }),
            "lr_schedule.warmup_steps is 11, more than the 10 steps of the schedule");
  LrScheduleConfig wsd = config_of("wsd", 5, 0.0, 6);
  wsd.total_steps = 10;
  EXPECT_EQ(text_of<Error>([&] { LrSchedule(wsd, 1.0, 20); }),
            "lr_schedule: warmup_steps 5 and decay_steps 6 are more than the 10 steps of the schedule");
}

TEST(LrSchedule, OfAJobThatIsCutShortEndsWithinItsWarmUp) {
  for (const char* kind : {"linear", "cosine", "wsd"}) {
    const LrSchedule schedule(config_of(kind, 20, 0.1, 5), 1.0, 3);
    for (int step = 0; step < 3; ++step) EXPECT_DOUBLE_EQ(schedule.at(step), (step + 1) / 20.0) << kind;
  }
}

}  // namespace
}  // namespace ppctl
