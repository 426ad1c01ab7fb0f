#include "train/step_scale.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace ppctl {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(StepScale, ClipsByTheRuleOfTheReference) {
  OptimizerConfig config;
  config.clip_norm = 1.0;
  EXPECT_EQ(step_scale(4.0, config).factor, 1.0 / (4.0 + 1e-6));
  EXPECT_EQ(step_scale(0.5, config), StepScale{});
  config.clip_norm = 5.0;
  EXPECT_TRUE(step_scale(4.0, config).plain());
  config.clip_norm = 0.0;
  EXPECT_TRUE(step_scale(4.0, config).plain());
}

TEST(StepScale, LeavesANormThatIsNoNumberVisible) {
  OptimizerConfig config;
  config.clip_norm = 1.0;
  EXPECT_TRUE(step_scale(kNan, config).plain());
  EXPECT_EQ(step_scale(kInfinity, config).factor, 0.0);
}

TEST(StepScale, SkipsAStepWhoseNormIsNotFiniteWhereAskedTo) {
  OptimizerConfig config;
  config.skip_nonfinite = true;
  EXPECT_TRUE(step_scale(kNan, config).skipped);
  EXPECT_TRUE(step_scale(kInfinity, config).skipped);
  EXPECT_TRUE(step_scale(0.5, config).plain());
}

}  // namespace
}  // namespace ppctl
