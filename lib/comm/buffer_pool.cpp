#include "comm/buffer_pool.hpp"

#include <bit>
#include <map>
#include <mutex>
#include <new>
#include <vector>

namespace ppctl {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr std::size_t kSmallest = 256;

}  // namespace

struct BufferPool::State {
  std::mutex mutex;
  std::map<std::size_t, std::vector<std::byte*>> free;
  std::size_t allocated = 0;

  ~State() {
    for (auto& [size, blocks] : free) {
      for (std::byte* block : blocks) ::operator delete(block, kAlignment);
    }
  }
};

std::size_t BufferPool::size_class(std::size_t size) {
  if (size <= kSmallest) return kSmallest;
  const std::size_t step = std::bit_floor(size - 1) / 4;
  return (size + step - 1) / step * step;
}

BufferPool::BufferPool() : state_(std::make_shared<State>()) {}

std::shared_ptr<std::byte> BufferPool::take(std::size_t size) {
  size = size_class(size);
  std::byte* block = nullptr;
  {
    const std::lock_guard lock(state_->mutex);
    auto& blocks = state_->free[size];
    if (!blocks.empty()) {
      block = blocks.back();
      blocks.pop_back();
    } else {
      state_->allocated += size;
    }
  }
  if (block == nullptr) block = static_cast<std::byte*>(::operator new(size, kAlignment));
  return {block, [state = state_, size](std::byte* returned) {
            const std::lock_guard lock(state->mutex);
            state->free[size].push_back(returned);
          }};
}

std::size_t BufferPool::allocated_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->allocated;
}

}  // namespace ppctl
