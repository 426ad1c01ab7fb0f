#include "storage/swap_store.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace ppctl {
namespace {

/// Blocks come back in the sizes in which they went, one a stage, so they are kept by size.
class MemoryStore : public SwapStore {
 public:
  explicit MemoryStore(std::size_t limit) : limit_(limit) {}

  Slot take(std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (limit_ > 0 && taken_ + bytes > limit_) {
      throw_error("swap: {} more bytes do not fit in host memory beside {}, of which 'swap.limit_gib' allows {}", bytes,
                  taken_, limit_);
    }
    taken_ += bytes;
    most_ = std::max(most_, taken_);
    Block block;
    auto& pool = pool_[bytes];
    if (pool.empty()) {
      block = {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
    } else {
      block = {std::move(pool.back()), bytes};
      pool.pop_back();
    }
    blocks_.emplace(next_, std::move(block));
    return next_++;
  }

  void give(Slot slot) override {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(slot);
    PPCTL_CHECK(found != blocks_.end(), "no slot {}", slot);
    taken_ -= found->second.size;
    pool_[found->second.size].push_back(std::move(found->second.bytes));
    blocks_.erase(found);
  }

  void write(Slot slot, std::span<const std::span<const std::byte>> parts) override {
    std::byte* to = block(slot);
    for (const auto& part : parts) to = std::copy(part.begin(), part.end(), to);
  }

  void read(Slot slot, std::span<const std::span<std::byte>> parts) override {
    const std::byte* from = block(slot);
    for (const auto& part : parts) {
      std::copy_n(from, part.size(), part.begin());  // a part may be empty, without an address
      from += part.size();
    }
  }

  std::size_t most_bytes() const override { return most_; }

 private:
  struct Block {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;
  };

  std::byte* block(Slot slot) {
    const std::lock_guard lock(mutex_);
    return blocks_.at(slot).bytes.get();
  }

  std::mutex mutex_;
  std::size_t limit_;
  std::size_t taken_ = 0;
  std::size_t most_ = 0;
  Slot next_ = 0;
  std::map<Slot, Block> blocks_;
  std::map<std::size_t, std::vector<std::unique_ptr<std::byte[]>>> pool_;  ///< by size
};

class SlowedStore : public SwapStore {
 public:
  SlowedStore(std::unique_ptr<SwapStore> store, double gbps) : store_(std::move(store)), gbps_(gbps) {}

  Slot take(std::size_t bytes) override { return store_->take(bytes); }
  void give(Slot slot) override { store_->give(slot); }
  void write(Slot slot, std::span<const std::span<const std::byte>> parts) override {
    const Nanoseconds end = end_of(parts);
    store_->write(slot, parts);
    sleep_until(end);
  }
  void read(Slot slot, std::span<const std::span<std::byte>> parts) override {
    const Nanoseconds end = end_of(parts);
    store_->read(slot, parts);
    sleep_until(end);
  }
  std::size_t most_bytes() const override { return store_->most_bytes(); }

 private:
  template <class Parts>
  Nanoseconds end_of(const Parts& parts) const {
    std::size_t bytes = 0;
    for (const auto& part : parts) bytes += part.size();
    return monotonic_now() + static_cast<Nanoseconds>(static_cast<double>(bytes) * 8.0 / gbps_);
  }
  static void sleep_until(Nanoseconds time) {
    std::this_thread::sleep_until(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(time)));
  }

  std::unique_ptr<SwapStore> store_;
  double gbps_;
};

}  // namespace

std::unique_ptr<SwapStore> make_slowed_store(std::unique_ptr<SwapStore> store, double gbps) {
  return std::make_unique<SlowedStore>(std::move(store), gbps);
}

std::unique_ptr<SwapStore> make_memory_store(std::size_t limit_bytes) {
  return std::make_unique<MemoryStore>(limit_bytes);
}

}  // namespace ppctl
