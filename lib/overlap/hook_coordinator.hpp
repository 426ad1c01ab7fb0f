#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.hpp"

namespace ppctl {

/// What a thread does after a meeting.
enum class HookRole : std::uint8_t {
  COMM,    ///< launches an exchange
  COMPUTE  ///< needs the result of its exchange, and computes
};
std::string_view to_string(HookRole role);

/// The two threads of a window.
enum class OverlapSide : std::uint8_t { kForward, kBackward };
std::string_view to_string(OverlapSide side);

/// The meetings of the forward and the backward of an overlapped pair: a rendezvous in which COMM goes first. The n-th
/// meeting of one side is with the n-th of the other; the side that says COMM returns at once and launches its
/// exchange, the side that says COMPUTE returns when it has (launched(), its next meeting, or its end). So an exchange
/// is under way before the compute that hides it begins, and the two sides compute in turns.
///
/// A side that leaves meets no more: the other one goes on alone. Two sides in the same role are an Error on both that
/// names both hooks, a meeting that does not come about within the time limit is one on the side that waits, and when a
/// side fails, all meetings of the other throw. Threads sleep while they wait.
///
/// open() and close() are for the thread that owns the window, the others for the two sides.
class HookCoordinator {
 public:
  /// `timeout_s`: of each meeting.
  explicit HookCoordinator(double timeout_s) : timeout_s_(timeout_s) {}

  /// Throws Error when a window is open already: pairs do not nest.
  void open();
  void close();

  /// Makes the calling thread a side of the window.
  void join(OverlapSide side);
  /// The side that the calling thread is, if it is one.
  std::optional<OverlapSide> side_of_this_thread() const;

  /// `hook` says in messages where the thread is.
  void meet(OverlapSide side, HookRole role, std::string_view hook);
  /// The side's exchange is under way.
  void launched(OverlapSide side);
  /// The side meets no more in this window.
  void leave(OverlapSide side);
  /// The side failed, because of `reason`.
  void fail(OverlapSide side, std::string_view reason);

  /// Meetings of the two in this window.
  std::int64_t num_meetings() const;

 private:
  struct State {
    bool arrived = false;
    HookRole role = HookRole::COMM;
    std::string hook;        ///< where it is, or was last
    bool launching = false;  ///< between a meeting as COMM and launched()
    bool left = false;
    std::optional<std::string> failure;
  };

  State& at(OverlapSide side) { return sides_[static_cast<std::size_t>(side)]; }
  static OverlapSide other(OverlapSide side) {
    return side == OverlapSide::kForward ? OverlapSide::kBackward : OverlapSide::kForward;
  }
  /// Sleeps until `done()`; throws where the other side failed, both are in one role, or the deadline passes.
  template <class Done>
  void wait(std::unique_lock<std::mutex>& lock, OverlapSide side, Deadline deadline, Done done);
  void pair(OverlapSide side);
  std::string describe(OverlapSide side);

  const double timeout_s_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  std::array<State, 2> sides_;
  std::array<std::atomic<std::thread::id>, 2> threads_{};
  std::optional<std::string> conflict_;
  std::int64_t num_meetings_ = 0;
};

}  // namespace ppctl
