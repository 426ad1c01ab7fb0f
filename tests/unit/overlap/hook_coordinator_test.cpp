#include "overlap/hook_coordinator.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "base/error.hpp"

namespace ppctl {
namespace {

constexpr OverlapSide kForward = OverlapSide::kForward;
constexpr OverlapSide kBackward = OverlapSide::kBackward;
constexpr double kLong = 60;

/// The text of what `body` throws.
std::string text_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(HookCoordinator, LetsTheComputeSideGoWhenTheOthersExchangeIsLaunched) {
  HookCoordinator hooks(kLong);
  hooks.open();
  std::atomic<bool> launched{false};
  std::atomic<bool> seen{false};
  std::thread backward([&] {
    hooks.meet(kBackward, HookRole::COMPUTE, "C");
    seen = launched.load();
  });
  hooks.meet(kForward, HookRole::COMM, "A");
  launched = true;
  hooks.launched(kForward);
  backward.join();
  EXPECT_TRUE(seen);
  EXPECT_EQ(hooks.num_meetings(), 1);
}

TEST(HookCoordinator, TakesTheNextMeetingForTheEndOfALaunch) {
  HookCoordinator hooks(kLong);
  hooks.open();
  std::thread backward([&] {
    hooks.meet(kBackward, HookRole::COMPUTE, "C");
    hooks.meet(kBackward, HookRole::COMM, "B");
    hooks.leave(kBackward);
  });
  hooks.meet(kForward, HookRole::COMM, "A");
  hooks.meet(kForward, HookRole::COMPUTE, "B");
  backward.join();
  EXPECT_EQ(hooks.num_meetings(), 2);
}

TEST(HookCoordinator, NamesBothHooksWhenBothSidesWantToLaunch) {
  HookCoordinator hooks(kLong);
  hooks.open();
  std::string backward_text;
  std::thread backward(
      [&] { backward_text = text_of([&] { hooks.meet(kBackward, HookRole::COMM, "D of layer 3"); }); });
  const std::string text = text_of([&] { hooks.meet(kForward, HookRole::COMM, "A of layer 0"); });
  backward.join();
  EXPECT_EQ(text, backward_text);
  EXPECT_NE(text.find("A of layer 0"), std::string::npos) << text;
  EXPECT_NE(text.find("D of layer 3"), std::string::npos) << text;
  EXPECT_NE(text.find("both are COMM"), std::string::npos) << text;
}

TEST(HookCoordinator, RefusesTwoSidesThatWantToCompute) {
  HookCoordinator hooks(kLong);
  hooks.open();
  std::thread backward([&] { text_of([&] { hooks.meet(kBackward, HookRole::COMPUTE, "C"); }); });
  const std::string text = text_of([&] { hooks.meet(kForward, HookRole::COMPUTE, "B"); });
  backward.join();
  EXPECT_NE(text.find("both are COMPUTE"), std::string::npos) << text;
}

TEST(HookCoordinator, GivesUpAMeetingAfterItsDeadlineAndSaysWhereTheOtherSideIs) {
  HookCoordinator hooks(0.01);
  hooks.open();
  const std::string text = text_of([&] { hooks.meet(kForward, HookRole::COMM, "A"); });
  EXPECT_NE(text.find("the forward waited"), std::string::npos) << text;
  EXPECT_NE(text.find("hook A (COMM)"), std::string::npos) << text;
  EXPECT_NE(text.find("the backward, which has come to no hook yet"), std::string::npos) << text;
}

TEST(HookCoordinator, LetsTheOtherSideGoOnAloneWhenOneHasLeft) {
  HookCoordinator hooks(kLong);
  hooks.open();
  std::thread backward([&] {
    hooks.meet(kBackward, HookRole::COMPUTE, "C");
    hooks.leave(kBackward);
  });
  hooks.meet(kForward, HookRole::COMM, "A");
  hooks.launched(kForward);
  hooks.meet(kForward, HookRole::COMPUTE, "B");
  hooks.meet(kForward, HookRole::COMM, "C");
  backward.join();
  EXPECT_EQ(hooks.num_meetings(), 1);
}

TEST(HookCoordinator, EndsTheMeetingsOfTheOtherSideWhenOneFails) {
  HookCoordinator hooks(kLong);
  hooks.open();
  std::thread backward([&] { hooks.fail(kBackward, "out of memory"); });
  const std::string text = text_of([&] { hooks.meet(kForward, HookRole::COMM, "A"); });
  backward.join();
  EXPECT_NE(text.find("the forward ends at hook A"), std::string::npos) << text;
  EXPECT_NE(text.find("out of memory"), std::string::npos) << text;
}

TEST(HookCoordinator, RefusesAWindowInsideOfAWindow) {
  HookCoordinator hooks(kLong);
  hooks.open();
  EXPECT_THROW(hooks.open(), Error);
  hooks.close();
  EXPECT_NO_THROW(hooks.open());
}

TEST(HookCoordinator, KnowsWhichThreadIsWhichSide) {
  HookCoordinator hooks(kLong);
  EXPECT_FALSE(hooks.side_of_this_thread());
  hooks.open();
  hooks.join(kBackward);
  std::thread forward([&] {
    EXPECT_FALSE(hooks.side_of_this_thread());
    hooks.join(kForward);
    EXPECT_EQ(hooks.side_of_this_thread(), kForward);
  });
  forward.join();
  EXPECT_EQ(hooks.side_of_this_thread(), kBackward);
  hooks.close();
  EXPECT_FALSE(hooks.side_of_this_thread());
}

}  // namespace
}  // namespace ppctl
