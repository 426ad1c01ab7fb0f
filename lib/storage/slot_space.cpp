#include "storage/slot_space.hpp"

#include <algorithm>
#include <iterator>

#include "base/error.hpp"

namespace ppctl {

std::optional<std::int64_t> SlotSpace::take(std::int64_t bytes) {
  PPCTL_CHECK(bytes > 0, "a slot of {} bytes", bytes);
  const std::int64_t size = (bytes + alignment_ - 1) / alignment_ * alignment_;
  const auto gap = std::find_if(gaps_.begin(), gaps_.end(), [size](const auto& free) { return free.second >= size; });
  std::int64_t offset = extent_;
  if (gap != gaps_.end()) {
    offset = gap->first;
    const std::int64_t left = gap->second - size;
    gaps_.erase(gap);
    if (left > 0) gaps_.emplace(offset + size, left);
  } else {
    // The space grows at its end, where there may be a gap that is too small.
    if (!gaps_.empty() && std::prev(gaps_.end())->first + std::prev(gaps_.end())->second == extent_) {
      offset = std::prev(gaps_.end())->first;
    }
    if (limit_ > 0 && offset + size > limit_) return std::nullopt;
    if (offset < extent_) gaps_.erase(offset);
    extent_ = offset + size;
  }
  used_.emplace(offset, size);
  taken_ += size;
  return offset;
}

void SlotSpace::give(std::int64_t offset) {
  const auto slot = used_.find(offset);
  PPCTL_CHECK(slot != used_.end(), "no slot begins at {}", offset);
  std::int64_t size = slot->second;
  taken_ -= size;
  used_.erase(slot);
  const auto next = gaps_.find(offset + size);
  if (next != gaps_.end()) {
    size += next->second;
    gaps_.erase(next);
  }
  const auto after = gaps_.lower_bound(offset);
  if (after != gaps_.begin() && std::prev(after)->first + std::prev(after)->second == offset) {
    std::prev(after)->second += size;
  } else {
    gaps_.emplace(offset, size);
  }
}

}  // namespace ppctl
