#include "model/kernels/simd.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace ppctl {
namespace {

TEST(VectorExp, IsWithinTwoUnitsInTheLastPlace) {
  double worst = 0.0;
  for (int i = -87'000'00; i <= 88'000'00; i += 37) {
    const float x = static_cast<float>(i) * 1e-5F;
    const double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(vector_exp(x)) - exact) / exact);
  }
  EXPECT_LT(worst, 2.0 * std::numeric_limits<float>::epsilon());
}

TEST(VectorExp, IsExactAtTheEndsAndKeepsNaN) {
  EXPECT_EQ(vector_exp(0.0F), 1.0F);
  EXPECT_EQ(vector_exp(-std::numeric_limits<float>::infinity()), 0.0F);
  EXPECT_EQ(vector_exp(-100.0F), 0.0F);
  EXPECT_EQ(vector_exp(1000.0F), vector_exp(88.3F));
  EXPECT_TRUE(std::isfinite(vector_exp(1000.0F)));
  EXPECT_TRUE(std::isnan(vector_exp(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace ppctl
