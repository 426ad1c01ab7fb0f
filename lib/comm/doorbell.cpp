#include "comm/doorbell.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace ppctl {

void Doorbell::ring() {
  rings_.fetch_add(1, std::memory_order_seq_cst);
  // Either this load sees the waiter, or the kernel, when the waiter enters it, sees the new count.
  if (waiters_.load(std::memory_order_seq_cst) != 0) {
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&rings_), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

void Doorbell::wait(std::uint32_t seen, Nanoseconds until) {
  static_assert(sizeof(rings_) == sizeof(std::uint32_t));
  if (until < 0) return;
  const timespec absolute{static_cast<time_t>(until / 1'000'000'000), static_cast<long>(until % 1'000'000'000)};
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  // FUTEX_WAIT_BITSET takes an absolute time of CLOCK_MONOTONIC, which is what steady_clock reads on Linux.
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&rings_), FUTEX_WAIT_BITSET, seen, &absolute, nullptr,
          FUTEX_BITSET_MATCH_ANY);
  waiters_.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace ppctl
