#include "train/overlap_gain.hpp"

#include <gtest/gtest.h>

#include "comm/inproc.hpp"

namespace ppctl {
namespace {

TEST(OverlapGain, IsThereUnlessTheRanksOfOneMachineFillItsCores) {
  const std::vector<std::string> one_machine(4, "a 8");
  EXPECT_TRUE(gains_from_overlap(one_machine, 8));
  EXPECT_TRUE(gains_from_overlap(one_machine, 5));
  EXPECT_FALSE(gains_from_overlap(one_machine, 4));
  EXPECT_FALSE(gains_from_overlap(one_machine, 2));
  EXPECT_TRUE(gains_from_overlap({"a 2", "a 2", "b 2", "b 2"}, 2));
}

TEST(OverlapGain, IsThereOverLinksOnAnyMachineAndTheSameOnAllRanks) {
  std::vector<int> without(3, -1);
  run_inproc(3, [&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.transport().rank());
    const auto world = communicator.group(std::vector<int>{0, 1, 2}, "world");
    EXPECT_TRUE(gains_from_overlap(*world, true, Deadline::after_seconds(60)));
    without[rank] = gains_from_overlap(*world, false, Deadline::after_seconds(60)) ? 1 : 0;
  });
  EXPECT_EQ(without, std::vector<int>(3, without[0]));
}

}  // namespace
}  // namespace ppctl
