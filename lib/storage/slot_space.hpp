#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace ppctl {

/// Which ranges of one linear space are taken: the first gap that is large enough is given, and neighbouring gaps
/// become one. Sizes are rounded up to `alignment`. A plain value.
class SlotSpace {
 public:
  /// `limit`: bytes that the space may reach; 0: no limit.
  explicit SlotSpace(std::int64_t limit = 0, std::int64_t alignment = 4096) : limit_(limit), alignment_(alignment) {}

  /// Where `bytes` (> 0) lie; nothing where they do not fit below the limit.
  std::optional<std::int64_t> take(std::int64_t bytes);
  /// REQUIRES: take() gave `offset`, and it was not given back yet.
  void give(std::int64_t offset);

  std::int64_t taken() const { return taken_; }    ///< bytes now
  std::int64_t extent() const { return extent_; }  ///< behind the last byte that was ever taken

 private:
  std::int64_t limit_;
  std::int64_t alignment_;
  std::int64_t taken_ = 0;
  std::int64_t extent_ = 0;
  std::map<std::int64_t, std::int64_t> used_;  ///< size by offset
  std::map<std::int64_t, std::int64_t> gaps_;  ///< size by offset, below extent_
};

}  // namespace ppctl
