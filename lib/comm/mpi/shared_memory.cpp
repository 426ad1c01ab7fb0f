#include "comm/mpi/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "base/error.hpp"
#include "comm/buffer_pool.hpp"

namespace ppctl {

struct ArenaHead {
  std::atomic<std::uint64_t> nonce{0};
  alignas(64) std::atomic<std::uint64_t> inbox{0};     ///< messages for this rank, the last first
  alignas(64) std::atomic<std::uint64_t> returned{0};  ///< blocks of this arena that are free again
  alignas(64) RankPanel panel;
};

/// A message, bytes that several messages share, or both.
struct alignas(64) ArenaBlock {
  std::atomic<std::uint64_t> next;  ///< in the list that the block is on
  std::uint64_t payload;            ///< the block whose data are the message's bytes
  std::int64_t tag;
  std::uint64_t size;                  ///< of the message, in bytes
  std::uint64_t block_bytes;           ///< of the block, with this head
  std::int32_t sender;                 ///< world rank
  std::atomic<std::uint32_t> readers;  ///< messages that have yet to give the data back

  std::byte* data() { return reinterpret_cast<std::byte*>(this + 1); }
};
static_assert(sizeof(ArenaBlock) == 64);

namespace {

constexpr int kOffsetBits = 48;
constexpr std::size_t kHeadBytes = (sizeof(ArenaHead) + 4095) / 4096 * 4096;
constexpr std::size_t kSmallestArena = std::size_t{64} << 20;

std::uint64_t random_nonce() {
  std::random_device device;
  return (std::uint64_t{device()} << 32 | device()) | 1;
}

}  // namespace

ArenaHead* SharedMemory::map(int file, std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<ArenaHead*>(memory);
}

SharedMemory::SharedMemory(std::size_t bytes, int world_rank) : world_rank_(world_rank) {
  file_ = memfd_create("ppctl", MFD_CLOEXEC);
  if (file_ < 0) throw_error("no shared memory: memfd_create: {}", std::strerror(errno));
  for (bytes_ = bytes; bytes_ >= kSmallestArena; bytes_ /= 2) {
    // The kernel counts pages when they are first touched, so a large arena costs nothing but address space.
    if (ftruncate(file_, static_cast<off_t>(bytes_)) == 0) own_ = map(file_, bytes_);
    if (own_ != nullptr) break;
  }
  if (own_ == nullptr) {
    const int fault = errno;
    close(file_);
    throw_error("no shared memory of {} MiB: {}", kSmallestArena >> 20, std::strerror(fault));
  }
  new (own_) ArenaHead;
  own_->nonce.store(random_nonce());
  used_ = kHeadBytes;
}

SharedMemory::~SharedMemory() {
  for (std::size_t i = 0; i < arenas_.size(); ++i) {
    if (arenas_[i] != own_ && arenas_[i] != nullptr) munmap(arenas_[i], arena_bytes_[i]);
  }
  munmap(own_, bytes_);
  close(file_);
}

ArenaAddress SharedMemory::address() const { return {this_process(), file_, bytes_, own_->nonce.load()}; }

void SharedMemory::open_peers(std::span<const ArenaAddress> addresses, int mine) {
  mine_ = mine;
  arenas_.assign(addresses.size(), nullptr);
  for (const ArenaAddress& address : addresses) {
    processes_.push_back(address.process);
    arena_bytes_.push_back(address.bytes);
  }
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (static_cast<int>(i) == mine) {
      arenas_[i] = own_;
      continue;
    }
    const ArenaAddress& address = addresses[i];
    if (address.bytes == 0) throw_error("a rank of this machine has no shared memory");
    const std::string path = fmt::format("/proc/{}/fd/{}", address.process.pid, address.file);
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) throw_error("cannot open {}: {}", path, std::strerror(errno));
    arenas_[i] = map(file, address.bytes);
    close(file);
    if (arenas_[i] == nullptr) throw_error("cannot map {}: {}", path, std::strerror(errno));
    if (arenas_[i]->nonce.load() != address.nonce) throw_error("{} is not the memory of a rank", path);
  }
}

RankPanel* SharedMemory::panel_of(int index) const { return &arenas_[index]->panel; }

ArenaBlock* SharedMemory::at(Reference reference) const {
  const auto arena = (reference >> kOffsetBits) - 1;
  const auto offset = reference & ((Reference{1} << kOffsetBits) - 1);
  return reinterpret_cast<ArenaBlock*>(reinterpret_cast<std::byte*>(arenas_[arena]) + offset);
}

SharedMemory::Reference SharedMemory::allocate(std::size_t data_bytes) {
  const std::size_t block_bytes = BufferPool::size_class(sizeof(ArenaBlock) + data_bytes);
  const std::lock_guard lock(mutex_);
  auto& fitting = free_[block_bytes];
  if (fitting.empty()) {
    for (Reference next = own_->returned.exchange(0, std::memory_order_acquire); next != 0;) {
      ArenaBlock* block = at(next);
      free_[block->block_bytes].push_back(next);
      next = block->next.load(std::memory_order_relaxed);
    }
  }
  if (!fitting.empty()) {
    const Reference reference = fitting.back();
    fitting.pop_back();
    return reference;
  }
  if (block_bytes > bytes_ - used_) {
    throw_error("rank {} has sent more than its shared memory of {} MiB holds and its peers have not received it",
                world_rank_, bytes_ >> 20);
  }
  const Reference reference = (static_cast<Reference>(mine_) + 1) << kOffsetBits | used_;
  used_ += block_bytes;
  ArenaBlock* block = new (at(reference)) ArenaBlock;
  block->block_bytes = block_bytes;
  return reference;
}

void SharedMemory::push(std::atomic<std::uint64_t>& list, Reference reference) {
  ArenaBlock* block = at(reference);
  Reference head = list.load(std::memory_order_relaxed);
  do {
    block->next.store(head, std::memory_order_relaxed);
  } while (!list.compare_exchange_weak(head, reference, std::memory_order_release, std::memory_order_relaxed));
}

void SharedMemory::release(Reference reference) {
  if (at(reference)->readers.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  push(arenas_[(reference >> kOffsetBits) - 1]->returned, reference);
}

void SharedMemory::send(std::span<const int> peers, std::span<const std::int64_t> tags,
                        std::span<const ConstBytes> bytes) {
  std::size_t size = 0;
  for (const ConstBytes& part : bytes) size += part.size;
  const Reference payload = allocate(size);
  ArenaBlock* block = at(payload);
  std::byte* end = block->data();
  for (const ConstBytes& part : bytes) {
    if (part.size != 0) std::memcpy(end, part.data, part.size);
    end += part.size;
  }
  block->readers.store(static_cast<std::uint32_t>(peers.size()), std::memory_order_relaxed);
  for (std::size_t i = 0; i < peers.size(); ++i) {
    // The block with the bytes is itself the only message; several messages are blocks of their own, which refer to it.
    const Reference message = peers.size() == 1 ? payload : allocate(0);
    ArenaBlock* head = at(message);
    head->payload = payload;
    head->tag = tags[i];
    head->size = size;
    head->sender = world_rank_;
    if (message != payload) head->readers.store(1, std::memory_order_relaxed);
    ArenaHead* peer = arenas_[peers[i]];
    push(peer->inbox, message);
    peer->panel.doorbell.ring();
  }
}

void SharedMemory::receive(const std::function<void(int, std::int64_t, Payload)>& deliver) {
  if (own_->inbox.load(std::memory_order_relaxed) == 0) return;
  // The list has the last message first; turning it round restores the order of each sender.
  Reference first = 0;
  for (Reference next = own_->inbox.exchange(0, std::memory_order_acquire); next != 0;) {
    ArenaBlock* block = at(next);
    const Reference following = block->next.load(std::memory_order_relaxed);
    block->next.store(first, std::memory_order_relaxed);
    first = next;
    next = following;
  }
  while (first != 0) {
    const Reference message = first;
    ArenaBlock* head = at(message);
    first = head->next.load(std::memory_order_relaxed);
    const Reference payload = head->payload;
    // A payload may outlive the transport that received it, hence the shared ownership of the mapping.
    const auto give_back = [memory = shared_from_this(), payload](const std::byte*) { memory->release(payload); };
    const Payload bytes{{at(payload)->data(), give_back}, head->size};
    const int sender = head->sender;
    const std::int64_t tag = head->tag;
    if (message != payload) release(message);
    deliver(sender, tag, bytes);
  }
}

}  // namespace ppctl
