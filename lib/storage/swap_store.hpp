#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace ppctl {

/// Where tensors are while they are not in the memory that computes. One rank's.
///
/// take() and give() are for the thread that computes; beside it one thread may write and another one read, other slots
/// than those that are given back meanwhile. All throw Error, one line, that names the place, the bytes and the cause.
class SwapStore {
 public:
  using Slot = std::int64_t;

  virtual ~SwapStore() = default;
  /// Room for `bytes` (> 0).
  virtual Slot take(std::size_t bytes) = 0;
  virtual void give(Slot slot) = 0;
  /// Packs `parts` into the slot, one behind the other. Blocks until the memory of the parts is free again.
  virtual void write(Slot slot, std::span<const std::span<const std::byte>> parts) = 0;
  /// Unpacks what write() packed. REQUIRES: parts of the same sizes.
  virtual void read(Slot slot, std::span<const std::span<std::byte>> parts) = 0;
  /// The most that was taken at once.
  virtual std::size_t most_bytes() const = 0;
};

/// A pool of blocks in memory.
/// `limit_bytes`: of what is taken at once; 0: no limit.
std::unique_ptr<SwapStore> make_memory_store(std::size_t limit_bytes);

/// `store`, slowed down to `gbps`, 10^9 bits a second each way: what another machine's tier would take.
std::unique_ptr<SwapStore> make_slowed_store(std::unique_ptr<SwapStore> store, double gbps);

struct SwapFileOptions {
  std::string folder;           ///< made where it does not exist
  std::size_t limit_bytes = 0;  ///< of the file; 0: what the disk has
  bool direct = false;          ///< past the page cache (O_DIRECT), which the folder's file system must support
};

/// A file without a name: its blocks are freed when the program ends, however it ends.
std::unique_ptr<SwapStore> make_file_store(const SwapFileOptions& options);

}  // namespace ppctl
