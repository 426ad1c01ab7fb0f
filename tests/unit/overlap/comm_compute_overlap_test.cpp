#include "overlap/comm_compute_overlap.hpp"

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace ppctl {
namespace {

/// What happened in a window, in order, said by both threads.
class Events {
 public:
  void add(const std::string& event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
  }
  std::size_t index_of(const std::string& event) const {
    for (std::size_t i = 0; i < events_.size(); ++i) {
      if (events_[i] == event) return i;
    }
    ADD_FAILURE() << event << " did not happen";
    return 0;
  }
  bool before(const std::string& a, const std::string& b) const { return index_of(a) < index_of(b); }

 private:
  std::mutex mutex_;
  std::vector<std::string> events_;
};

struct FakePending {
  int result = 0;
  int wait() const { return result; }
};

std::string text_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// A window over layers that only say what they do.
class FakeWindow {
 public:
  explicit FakeWindow(CommComputeOverlap& overlap) : overlap_(overlap) {}

  std::function<void()> forward(int layers, bool says_last = false) {
    return [=, this] {
      for (int layer = 0; layer < layers; ++layer) {
        layer_exchange("F", layer, "dispatch");
        std::optional<bool> is_last;
        if (says_last) is_last = layer + 1 == layers;
        layer_exchange("F", layer, "combine", is_last);
      }
    };
  }
  std::function<void()> backward(int layers) {
    return [=, this] {
      for (int layer = layers - 1; layer >= 0; --layer) {
        layer_exchange("B", layer, "combine");
        layer_exchange("B", layer, "dispatch");
      }
    };
  }

  Events events;

 private:
  void layer_exchange(const std::string& side, int layer, const std::string& what, std::optional<bool> last = {}) {
    const std::string name = side + std::to_string(layer) + " " + what;
    const auto launch = [&](int value) {
      events.add(name + " launched");
      return FakePending{value};
    };
    auto wrapped =
        what == "dispatch"
            ? std::function<int(int)>([&](int value) { return overlap_.wrap_dispatch(launch)(value).wait(); })
            : [&](int value) { return overlap_.wrap_combine(launch, last)(value).wait(); };
    EXPECT_EQ(wrapped(layer + 7), layer + 7);
    events.add(name + " computed");
  }

  CommComputeOverlap& overlap_;
};

TEST(CommComputeOverlap, LaunchesEachExchangeBeforeTheComputeThatHidesIt) {
  CommComputeOverlap overlap({.timeout_s = 60});
  FakeWindow window(overlap);
  const auto counts = overlap.run(window.forward(2), window.backward(2));
  EXPECT_EQ(counts.forward, 4);
  EXPECT_EQ(counts.backward, 4);
  // The forward's A is with the backward's C of its last layer, its B with the backward's B, its C with its A, its D
  // with the D of the layer before.
  const Events& events = window.events;
  EXPECT_TRUE(events.before("F0 dispatch launched", "B1 combine computed"));
  EXPECT_TRUE(events.before("B1 dispatch launched", "F0 dispatch computed"));
  EXPECT_TRUE(events.before("F0 combine launched", "B1 dispatch computed"));
  EXPECT_TRUE(events.before("B0 combine launched", "F0 combine computed"));
  EXPECT_TRUE(events.before("F1 dispatch launched", "B0 combine computed"));
  EXPECT_TRUE(events.before("B0 dispatch launched", "F1 dispatch computed"));
  EXPECT_TRUE(events.before("F1 combine launched", "B0 dispatch computed"));
}

TEST(CommComputeOverlap, MeetsFourTimesALayerLessOne) {
  for (const int layers : {1, 2, 5}) {
    CommComputeOverlap overlap({.timeout_s = 60});
    FakeWindow given(overlap);
    overlap.run(given.forward(layers, /*says_last=*/true), given.backward(layers));
    EXPECT_EQ(overlap.coordinator().num_meetings(), 4 * layers - 1);
    FakeWindow derived(overlap);
    overlap.run(derived.forward(layers), derived.backward(layers), {2 * layers, 2 * layers});
    EXPECT_EQ(overlap.coordinator().num_meetings(), 4 * layers - 1);
  }
}

TEST(CommComputeOverlap, LetsTheSideWithMoreLayersGoOnAlone) {
  for (int forward = 0; forward < 4; ++forward) {
    for (int backward = 0; backward < 4; ++backward) {
      CommComputeOverlap overlap({.timeout_s = 60});
      FakeWindow window(overlap);
      const auto counts = overlap.run(window.forward(forward), window.backward(backward));
      EXPECT_EQ(counts.forward, 2 * forward);
      EXPECT_EQ(counts.backward, 2 * backward);
    }
  }
}

TEST(CommComputeOverlap, MeetsNowhereWhereOneSideIsKnownToHaveNoExchange) {
  CommComputeOverlap overlap({.timeout_s = 60});
  FakeWindow window(overlap);
  overlap.run(window.forward(3), window.backward(0), {6, 0});
  EXPECT_EQ(overlap.coordinator().num_meetings(), 0);
}

TEST(CommComputeOverlap, ExchangesOfAForwardThatIsRunAgainFitIn) {
  CommComputeOverlap overlap({.timeout_s = 60});
  FakeWindow window(overlap);
  const auto exchange = [&](ExchangeKind kind, bool recomputed) {
    ExchangeHooks hooks = overlap.begin_exchange(kind, std::nullopt, recomputed);
    hooks.launched();
    hooks.before_wait();
  };
  const auto counts = overlap.run(window.forward(3), [&] {
    for (int layer = 0; layer < 3; ++layer) {
      exchange(ExchangeKind::kDispatch, true);
      exchange(ExchangeKind::kCombine, true);
      exchange(ExchangeKind::kCombine, false);
      exchange(ExchangeKind::kDispatch, false);
    }
  });
  EXPECT_EQ(counts.backward, 12);
}

TEST(CommComputeOverlap, AnExchangeInsideOfAnotherHasNoMeetings) {
  CommComputeOverlap overlap({.timeout_s = 60});
  FakeWindow window(overlap);
  overlap.run(
      [&] {
        ExchangeHooks rows = overlap.begin_exchange(ExchangeKind::kDispatch);
        ExchangeHooks counts = overlap.begin_exchange(ExchangeKind::kDispatch);
        counts.launched();
        counts.before_wait();
        rows.launched();
        rows.before_wait();
      },
      window.backward(1));
  EXPECT_EQ(overlap.coordinator().num_meetings(), 2);
}

TEST(CommComputeOverlap, DoesNothingOutsideOfAWindow) {
  CommComputeOverlap overlap({.timeout_s = 60});
  EXPECT_EQ(overlap.wrap_dispatch([](int value) { return FakePending{value}; })(5).wait(), 5);
}

TEST(CommComputeOverlap, ReportsTheTextsOfBothSidesWhenOneFails) {
  for (const bool forward_fails : {true, false}) {
    std::vector<std::string> reasons;
    CommComputeOverlap overlap({60, [&](std::string_view reason) { reasons.emplace_back(reason); }});
    FakeWindow window(overlap);
    const auto fails = [&] {
      overlap.wrap_dispatch([](int value) { return FakePending{value}; })(1).wait();
      throw Error("no room for tokens");
    };
    const std::string text = text_of(
        [&] { forward_fails ? overlap.run(fails, window.backward(4)) : overlap.run(window.forward(4), fails); });
    const std::string failed = forward_fails ? "forward" : "backward";
    const std::string other = forward_fails ? "backward" : "forward";
    EXPECT_NE(text.find("the " + failed + " of the pair failed: no room for tokens"), std::string::npos) << text;
    EXPECT_NE(text.find("its " + other + ": the " + other + " ends at hook"), std::string::npos) << text;
    EXPECT_EQ(reasons, std::vector<std::string>{"the " + failed + " of the pair failed: no room for tokens"});
  }
}

TEST(CommComputeOverlap, SaysThatTheOtherSideWasDone) {
  CommComputeOverlap overlap({.timeout_s = 60});
  const std::string text = text_of([&] { overlap.run([] {}, [] { throw Error("disk full"); }); });
  EXPECT_EQ(text, "the backward of the pair failed: disk full; its forward was done");
}

TEST(CommComputeOverlap, StaysABugWhereABugEndedThePair) {
  CommComputeOverlap overlap({.timeout_s = 60});
  EXPECT_THROW(overlap.run([] { throw Bug("broken"); }, [] {}), Bug);
}

TEST(CommComputeOverlap, RefusesAPairInsideOfAPairAndWorksAfterwards) {
  CommComputeOverlap overlap({.timeout_s = 60});
  const std::string text = text_of([&] { overlap.run([] {}, [&] { overlap.run([] {}, [] {}); }); });
  EXPECT_NE(text.find("pairs do not nest"), std::string::npos) << text;
  FakeWindow window(overlap);
  EXPECT_EQ(overlap.run(window.forward(1), window.backward(1)).forward, 2);
}

}  // namespace
}  // namespace ppctl
