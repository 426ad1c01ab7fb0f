#include "schedule/text.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "base/error.hpp"
#include "schedule/generator.hpp"

namespace ppctl {
namespace {

std::string csv_of(const Schedule& schedule) {
  std::ostringstream out;
  write_csv(out, schedule);
  return out.str();
}

TEST(Text, WritesOneLineARank) {
  const Schedule schedule = generate_schedule({.name = "1f1b", .pp = 2, .num_microbatches = 3});
  EXPECT_EQ(csv_of(schedule), "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n");
}

}  // namespace
}  // namespace ppctl
