#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "comm/inproc.hpp"
#include "comm/transport.hpp"
#include "overlap/comm_compute_overlap.hpp"

// Windows of random shape over the real in-process transport: two ranks, each with a forward and a backward that
// exchange bytes with the other rank through groups of their own.

namespace ppctl {
namespace {

constexpr int kRanks = 2;

/// What one window does; the same on both ranks.
struct Shape {
  int window = 0;
  int forward_layers = 0;
  int backward_layers = 0;
  bool recomputes = false;
  bool is_known = false;
  int most_delay_us = 0;
  // who fails, if anybody
  int failing_rank = -1;
  OverlapSide failing_side = OverlapSide::kForward;
  int failing_exchange = 0;
};

Shape random_shape(int window, std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Shape shape;
  shape.window = window;
  shape.forward_layers = below(5);
  shape.backward_layers = below(5);
  shape.recomputes = below(3) == 0;
  shape.is_known = below(2) == 0;
  shape.most_delay_us = below(4) == 0 ? 200 : 0;
  if (below(20) == 0) {
    shape.failing_rank = below(kRanks);
    shape.failing_side = below(2) == 0 ? OverlapSide::kForward : OverlapSide::kBackward;
    shape.failing_exchange = below(8);
  }
  return shape;
}

/// One side of one rank. Its exchanges carry numbers that the other rank can tell.
class FakeSide {
 public:
  FakeSide(CommComputeOverlap& overlap, Group& group, const Shape& shape, OverlapSide side)
      : overlap_(overlap), group_(group), shape_(shape), side_(side), random_(static_cast<unsigned>(shape.window)) {}

  void forward() {
    for (int layer = 0; layer < shape_.forward_layers; ++layer) {
      delay();
      exchange(ExchangeKind::kDispatch, false);
      delay();
      exchange(ExchangeKind::kCombine, false);
    }
  }
  void backward() {
    for (int layer = 0; layer < shape_.backward_layers; ++layer) {
      if (shape_.recomputes && layer % 2 == 0) {
        exchange(ExchangeKind::kDispatch, true);
        exchange(ExchangeKind::kCombine, true);
      }
      delay();
      exchange(ExchangeKind::kCombine, false);
      delay();
      exchange(ExchangeKind::kDispatch, false);
    }
  }

 private:
  std::int64_t number(int rank) const {
    return ((std::int64_t{shape_.window} * 2 + static_cast<int>(side_)) * 64 + count_) * kRanks + rank;
  }

  void exchange(ExchangeKind kind, bool recomputed) {
    const bool fails = shape_.failing_rank == group_.rank() && shape_.failing_side == side_;
    if (fails && count_ == shape_.failing_exchange) throw Error("a failure that was asked for");
    const std::vector<std::int64_t> sent(kRanks, number(group_.rank()));
    std::vector<std::int64_t> received(kRanks, -1);
    const std::vector<std::size_t> sizes(kRanks, sizeof(std::int64_t));
    ExchangeHooks hooks = overlap_.begin_exchange(kind, std::nullopt, recomputed);
    const RequestPtr request =
        group_.all_to_all({reinterpret_cast<const std::byte*>(sent.data()), sizeof(std::int64_t) * kRanks}, sizes,
                          {reinterpret_cast<std::byte*>(received.data()), sizeof(std::int64_t) * kRanks}, sizes);
    hooks.launched();
    hooks.before_wait();
    request->wait(Deadline::after_seconds(60), "an exchange");
    for (int rank = 0; rank < kRanks; ++rank) {
      if (received[static_cast<std::size_t>(rank)] != number(rank)) throw Bug("an exchange brought other bytes");
    }
    ++count_;
  }

  void delay() {
    if (shape_.most_delay_us == 0) return;
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % static_cast<unsigned>(shape_.most_delay_us)));
  }

  CommComputeOverlap& overlap_;
  Group& group_;
  const Shape& shape_;
  OverlapSide side_;
  std::mt19937 random_;
  std::int64_t count_ = 0;
};

/// The backward's exchanges of both kinds.
int num_backward_exchanges(const Shape& shape) {
  const int again = shape.recomputes ? 2 * ((shape.backward_layers + 1) / 2) : 0;
  return 2 * shape.backward_layers + again;
}

void run_window(CommComputeOverlap& overlap, Group& forward_group, Group& backward_group, const Shape& shape) {
  FakeSide forward(overlap, forward_group, shape, OverlapSide::kForward);
  FakeSide backward(overlap, backward_group, shape, OverlapSide::kBackward);
  OverlapWindow window;
  if (shape.is_known) window = {2 * shape.forward_layers, num_backward_exchanges(shape)};
  const auto counts = overlap.run([&] { forward.forward(); }, [&] { backward.backward(); }, window);
  if (counts.forward != 2 * shape.forward_layers || counts.backward != num_backward_exchanges(shape)) {
    throw Bug("a window ended before its exchanges");
  }
}

/// Runs windows until one fails or all are done; how many were begun.
int run_job(int first, int end, unsigned seed, std::string* failure) {
  std::vector<std::atomic<int>> done(kRanks);
  try {
    run_inproc(kRanks, [&](Communicator& communicator) {
      Transport& transport = communicator.transport();
      const std::unique_ptr<Group> forward = communicator.group(std::vector{0, 1}, "forward");
      const std::unique_ptr<Group> backward = communicator.group(std::vector{0, 1}, "backward");
      CommComputeOverlap overlap({60, [&](std::string_view reason) { transport.abort(reason); }});
      for (int window = first; window < end; ++window) {
        std::mt19937 random(seed + static_cast<unsigned>(window));
        done[static_cast<std::size_t>(transport.rank())] = window + 1;
        run_window(overlap, *forward, *backward, random_shape(window, random));
      }
    });
  } catch (const Error& error) {
    *failure = error.what();
  }
  return std::max(done[0].load(), done[1].load());
}

TEST(OverlapStress, RandomWindowsEndWithTheRightBytesOrTheRightFailure) {
  // 10,000 windows are a part of scripts/soak, under the thread sanitizer.
  const char* asked = std::getenv("PPCTL_OVERLAP_WINDOWS");
  const int windows = asked != nullptr ? std::atoi(asked) : 400;
  const char* seed_text = std::getenv("PPCTL_SEED");
  const auto seed = static_cast<unsigned>(seed_text != nullptr ? std::atoi(seed_text) : 1);
  int begun = 0;
  int failures = 0;
  while (begun < windows) {
    std::string failure;
    begun = run_job(begun, windows, seed, &failure);
    if (failure.empty()) continue;
    ++failures;
    EXPECT_NE(failure.find("a failure that was asked for"), std::string::npos) << failure;
  }
  EXPECT_EQ(begun, windows);
  EXPECT_GT(failures, 0) << "some windows were to fail";
  RecordProperty("windows", begun);
  RecordProperty("failures", failures);
}

}  // namespace
}  // namespace ppctl
