#include "base/did_you_mean.hpp"

#include <gtest/gtest.h>

#include <array>

namespace ppctl {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"gpipe", "1f1b", "zb_v", "interleaved_1f1b"};

TEST(DidYouMean, FindsTheClosestName) {
  EXPECT_EQ(did_you_mean("gpip", kNames), " (did you mean 'gpipe'?)");
  EXPECT_EQ(did_you_mean("gppie", kNames), " (did you mean 'gpipe'?)");
  EXPECT_EQ(did_you_mean("interleave_1f1b", kNames), " (did you mean 'interleaved_1f1b'?)");
}

TEST(DidYouMean, CountsSwappedNeighboursOnce) { EXPECT_EQ(did_you_mean("1fb1", kNames), " (did you mean '1f1b'?)"); }

TEST(DidYouMean, IsSilentWhereNothingIsClose) {
  EXPECT_EQ(did_you_mean("breadth", kNames), "");
  EXPECT_EQ(did_you_mean("", kNames), "");
  EXPECT_EQ(did_you_mean("gpipe", {}), "");
  EXPECT_EQ(did_you_mean(std::string(10000, 'g'), kNames), "");
}

}  // namespace
}  // namespace ppctl
