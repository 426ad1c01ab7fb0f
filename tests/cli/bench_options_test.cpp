#include "../../apps/ppctl/bench_options.hpp"

#include <gtest/gtest.h>

namespace ppctl {
namespace {

TEST(BenchOptions, TakeFiniteNumbersOfAtLeastTheLeast) {
  EXPECT_EQ(number_option("pp", "3", 1), 3);
  EXPECT_EQ(number_option("forward-ms", "0.5", 0.0), 0.5);
  for (const char* text : {"nan", "inf", "-inf", "-1", "", "1x", "1e999"}) {
    try {
      number_option("forward-ms", text, 0.0);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), "--forward-ms " + std::string(text) + ": a number of at least 0 is wanted");
    }
  }
}

}  // namespace
}  // namespace ppctl
