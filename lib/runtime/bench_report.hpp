#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/transport.hpp"
#include "runtime/step_result.hpp"
#include "runtime/timed_moe_module.hpp"

namespace ppctl {

/// A rank's part of one measured step, as bytes that travel to rank 0. All ranks are on one machine and of one build.
struct RankReport {
  Nanoseconds end = 0;
  std::int64_t peak_chunks = 0;
  std::vector<RecordedSpan> spans;
  std::vector<TimedUnit::Span> computed;

  std::string pack() const;
  static RankReport unpack(const std::string& bytes);
};

/// A moment that all ranks of the group agree on, far enough ahead that each is waiting for it. COLLECTIVE.
Nanoseconds agree_on_start(Group& group, Deadline deadline);

}  // namespace ppctl
