#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace ppctl {

/// A hash of a file's content by which damage is noticed (not forgery): XXH3 with 128 bits, as the xxHash library
/// defines it, faster than any disk. `xxhsum -H128 FILE` prints the same number.
class ContentHash {
 public:
  ContentHash();
  ContentHash(ContentHash&&) noexcept;
  ~ContentHash();

  void add(std::span<const std::byte> bytes);
  /// Of all that was added so far: "xxh128:" and 32 hexadecimal digits.
  std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string content_hash(std::span<const std::byte> bytes);

}  // namespace ppctl
