#pragma once

#include <cstdint>

namespace ppctl {

/// A pseudo-random order of 0 .. size - 1 as a function of a key, without a table: a balanced Feistel network over the
/// smallest even number of bits that holds `size`, walked along its cycle until the value is in range (Black and
/// Rogaway, "Ciphers with arbitrary finite domains", 2002). So a resumed run or another rank finds its place in the
/// order from the numbers alone.
class Permutation {
 public:
  /// REQUIRES: size >= 1.
  Permutation(std::int64_t size, std::uint64_t key);
  /// The element at `position`. REQUIRES: 0 <= position < size. O(1) expected: at most four rounds of the network on
  /// average.
  std::int64_t operator()(std::int64_t position) const;

 private:
  std::uint64_t encrypt(std::uint64_t value) const;

  std::uint64_t size_;
  std::uint64_t key_;
  int half_bits_;
};

/// A 64-bit mix of two numbers (the finaliser of SplitMix64).
std::uint64_t mix_bits(std::uint64_t a, std::uint64_t b);

}  // namespace ppctl
