#pragma once

#include <cstddef>
#include <memory>

namespace ppctl {

/// Memory that is used again: blocks aligned to 64 bytes, in classes of size, kept when their users let go of them.
/// Thread-safe. Blocks may outlive the pool.
class BufferPool {
 public:
  BufferPool();
  /// A block of at least `size` bytes, uninitialised.
  std::shared_ptr<std::byte> take(std::size_t size);
  /// Bytes of all blocks, in use or not.
  std::size_t allocated_bytes() const;
  /// The size of the blocks that serve `size` bytes: four classes for each power of two, so that at most a fifth of a
  /// block is waste.
  static std::size_t size_class(std::size_t size);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ppctl
