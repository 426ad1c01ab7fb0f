#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "comm/doorbell.hpp"

namespace ppctl {

/// A short text that one writer at a time changes and others, also of other processes, read without locks. What does
/// not fit is cut.
template <std::size_t kWords>
class TextCell {
 public:
  static constexpr std::size_t kCapacity = kWords * sizeof(std::uint64_t);

  void write(std::string_view text) {
    text = text.substr(0, kCapacity);
    version_.fetch_add(1, std::memory_order_acq_rel);
    size_.store(static_cast<std::uint32_t>(text.size()), std::memory_order_release);
    for (std::size_t at = 0; at < text.size(); at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + at, std::min(sizeof word, text.size() - at));
      words_[at / sizeof word].store(word, std::memory_order_release);
    }
    version_.fetch_add(1, std::memory_order_acq_rel);
  }

  /// The text; of a writer that was killed while it wrote, what there is.
  std::string read() const {
    std::string text;
    for (int attempt = 0; attempt < 100; ++attempt) {
      const std::uint32_t before = version_.load(std::memory_order_acquire);
      text.resize(std::min<std::size_t>(size_.load(std::memory_order_acquire), kCapacity));
      for (std::size_t at = 0; at < text.size(); at += sizeof(std::uint64_t)) {
        const std::uint64_t word = words_[at / sizeof(word)].load(std::memory_order_acquire);
        std::memcpy(text.data() + at, &word, std::min(sizeof word, text.size() - at));
      }
      if (before % 2 == 0 && version_.load(std::memory_order_acquire) == before) break;
    }
    return text;
  }

 private:
  std::atomic<std::uint32_t> version_{0};  ///< odd while a writer is at work
  std::atomic<std::uint32_t> size_{0};
  std::array<std::atomic<std::uint64_t>, kWords> words_{};
};

/// What a rank shows to the other ranks of its machine. Lies in memory that all of them see.
struct RankPanel {
  Doorbell doorbell;
  TextCell<16> status;                ///< what the rank is doing ("step 12, 3F4")
  std::atomic<int> failure_claim{0};  ///< the first to set it writes the failure
  std::atomic<int> failed{0};         ///< set once `failure` is written: every wait of the rank fails with it
  TextCell<128> failure;
  std::atomic<int> left{0};  ///< the rank ended in order

  /// Makes the waits of the panel's rank fail with `reason`, unless they do already.
  void fail(std::string_view reason) {
    if (failure_claim.exchange(1) == 0) {
      failure.write(reason);
      failed.store(1, std::memory_order_release);
    }
    doorbell.ring();
  }
};

}  // namespace ppctl
