#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "schedule/pair_transfers.hpp"

namespace ppctl {

/// The transfers behind the overlapped pair that runs, and which of them have started. The halves may end on different
/// threads; has_started is for the time after both.
class EarlyTransfers {
 public:
  /// A pair begins, with these behind it. They must stay valid until the next one.
  void begin(std::span<const PairTransfer> transfers) {
    transfers_ = transfers;
    started_.assign(transfers.size(), false);
    ended_ = 0;
  }

  /// Calls start(index of a step) for what waited for this half alone, one call at a time.
  template <class Start>
  void half_ended(std::uint8_t half, const Start& start) {
    const std::lock_guard lock(mutex_);
    ended_ |= half;
    for (std::size_t i = 0; i < transfers_.size(); ++i) {
      if (started_[i] || (transfers_[i].halves & ~ended_) != 0) continue;
      started_[i] = true;
      start(transfers_[i].step);
    }
  }

  bool has_started(std::size_t step) const {
    for (std::size_t i = 0; i < transfers_.size(); ++i) {
      if (transfers_[i].step == step) return started_[i];
    }
    return false;
  }

 private:
  std::mutex mutex_;
  std::span<const PairTransfer> transfers_;
  std::vector<bool> started_;
  std::uint8_t ended_ = 0;
};

}  // namespace ppctl
