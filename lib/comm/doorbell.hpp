#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.hpp"

namespace ppctl {

/// What a rank sleeps on. It lies in memory that all ranks of the machine see; whoever has news for the rank rings.
/// Waiters read the count, look for what they want, and sleep only while the count has not moved, so that no ring is
/// lost. A futex.
class Doorbell {
 public:
  std::uint32_t count() const { return rings_.load(std::memory_order_seq_cst); }
  /// Wakes all waiters. Costs a system call only when there are any.
  void ring();
  /// Sleeps until the count differs from `seen` or `until` (monotonic) is reached. May return early.
  void wait(std::uint32_t seen, Nanoseconds until);

 private:
  std::atomic<std::uint32_t> rings_{0};
  std::atomic<std::uint32_t> waiters_{0};
};

}  // namespace ppctl
