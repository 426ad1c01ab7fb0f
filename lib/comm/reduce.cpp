#include "comm/reduce.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/error.hpp"

namespace ppctl {
namespace {

/// Elements that are summed at a time, so that the partial sums stay in the first-level cache.
constexpr std::size_t kBlock = 1024;

struct BFloat16 {
  std::uint16_t bits;
};

float widen(BFloat16 value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16); }

BFloat16 round_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return {static_cast<std::uint16_t>((bits >> 16) | 0x40)};
  return {static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

template <class T>
T widen(T value) {
  return value;
}

template <class T, class Sum>
T narrow(Sum sum) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return round_to_bfloat16(sum);
  } else {
    return static_cast<T>(sum);
  }
}

template <class T, class Sum>
void sum_elements(std::span<const std::byte* const> sources, std::byte* output, std::size_t count) {
  std::array<Sum, kBlock> sums;
  std::array<T, kBlock> block;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t size = std::min(kBlock, count - begin);
    for (std::size_t source = 0; source < sources.size(); ++source) {
      // Memory of messages need not be aligned for T.
      std::memcpy(block.data(), sources[source] + begin * sizeof(T), size * sizeof(T));
      if (source == 0) {
        for (std::size_t i = 0; i < size; ++i) sums[i] = widen(block[i]);
      } else {
        for (std::size_t i = 0; i < size; ++i) sums[i] += widen(block[i]);
      }
    }
    for (std::size_t i = 0; i < size; ++i) block[i] = narrow<T>(sums[i]);
    std::memcpy(output + begin * sizeof(T), block.data(), size * sizeof(T));
  }
}

}  // namespace

void sum_in_order(ElementType type, std::span<const std::byte* const> sources, std::byte* output, std::size_t bytes) {
  PPCTL_CHECK(!sources.empty() && bytes % size_of(type) == 0, "{} sources of {} bytes", sources.size(), bytes);
  const std::size_t count = bytes / size_of(type);
  switch (type) {
    case ElementType::kFloat32:
      return sum_elements<float, float>(sources, output, count);
    case ElementType::kFloat64:
      return sum_elements<double, double>(sources, output, count);
    case ElementType::kBFloat16:
      return sum_elements<BFloat16, float>(sources, output, count);
    case ElementType::kInt64:
      return sum_elements<std::uint64_t, std::uint64_t>(sources, output, count);  // wraps instead of overflowing
    case ElementType::kUint8:
      return sum_elements<std::uint8_t, std::uint8_t>(sources, output, count);
  }
}

}  // namespace ppctl
