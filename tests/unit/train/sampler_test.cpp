#include "train/sampler.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace ppctl {
namespace {

TEST(DrawToken, IsTheMostLikelyAtTemperatureZero) {
  EXPECT_EQ(draw_token(std::array{0.0F, 3.0F, 3.0F, 1.0F}, 0.0, 0, 0.99), 1);
}

TEST(DrawToken, FollowsTheProbabilities) {
  // Probabilities 1/8, 1/2, 3/8, in order of likelihood 1, 2, 0.
  const std::array logits{std::log(1.0F), std::log(4.0F), std::log(3.0F)};
  EXPECT_EQ(draw_token(logits, 1.0, 0, 0.49), 1);
  EXPECT_EQ(draw_token(logits, 1.0, 0, 0.51), 2);
  EXPECT_EQ(draw_token(logits, 1.0, 0, 0.87), 2);
  EXPECT_EQ(draw_token(logits, 1.0, 0, 0.88), 0);
}

TEST(DrawToken, NeverLeavesTheTopK) {
  const std::array logits{1.0F, 1.1F, 1.2F, 1.3F};
  std::set<int> drawn;
  for (int i = 0; i < 100; ++i) drawn.insert(draw_token(logits, 5.0, 2, i / 100.0));
  EXPECT_EQ(drawn, (std::set<int>{2, 3}));
}

TEST(DrawToken, SharpensAsTheTemperatureFalls) {
  const std::array logits{0.0F, 1.0F};
  EXPECT_EQ(draw_token(logits, 1.0, 0, 0.8), 0);
  EXPECT_EQ(draw_token(logits, 0.1, 0, 0.8), 1);
}

}  // namespace
}  // namespace ppctl
