#pragma once

#include <chrono>
#include <cstdint>

namespace ppctl {

/// Nanoseconds of the monotonic clock; only differences mean something, and only within one machine.
using Nanoseconds = std::int64_t;

inline Nanoseconds monotonic_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// A point in time after which a wait gives up. Every wait of ppctl has one.
struct Deadline {
  Nanoseconds at = 0;

  static Deadline after_seconds(double seconds) { return {monotonic_now() + static_cast<Nanoseconds>(seconds * 1e9)}; }
  bool passed() const { return monotonic_now() >= at; }
};

}  // namespace ppctl
