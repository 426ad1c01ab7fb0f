#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/mailbox.hpp"
#include "comm/mpi/process.hpp"
#include "comm/rank_panel.hpp"
#include "comm/transport.hpp"

namespace ppctl {

/// The memory of one rank that the ranks of its machine share: a head, then blocks.
struct ArenaHead;
struct ArenaBlock;

/// What a rank tells the others of its machine, so that they find its memory. Plain bytes.
struct ArenaAddress {
  ProcessId process;
  int file = -1;
  std::uint64_t bytes = 0;  ///< 0: it could not be made
  std::uint64_t nonce = 0;  ///< also in the memory: proves that it is the one meant, whatever pids mean to the reader
};

/// Messages between the ranks of one machine through shared memory.
///
/// Each rank has an arena, a sparse memory file. A sender copies a message once, into a block of its own arena, and
/// pushes the block onto the receiver's inbox, a lock-free list; the receiver copies it out once, into place, and
/// pushes the block onto the sender's list of returned blocks. There are no queues that can be full, nothing is locked
/// across processes, and a rank that is killed at any point leaves the others' memory whole.
class SharedMemory : public std::enable_shared_from_this<SharedMemory> {
 public:
  /// Makes this rank's arena, of `bytes` or less if the kernel wants it so. Throws Error if there can be none.
  SharedMemory(std::size_t bytes, int world_rank);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  ArenaAddress address() const;
  /// Opens the arenas of all ranks of the machine, in the order in which they then have indices 0, 1, ...; `mine` is
  /// this rank's. Throws Error if one cannot be opened. Call once, before anything below.
  void open_peers(std::span<const ArenaAddress> addresses, int mine);

  RankPanel& panel(int index) { return *panel_of(index); }
  const ProcessId& process(int index) const { return processes_[index]; }
  int num_ranks() const { return static_cast<int>(arenas_.size()); }

  /// Sends one message to each of the peers (indices), all with the same bytes. Thread-safe. Throws Error when the
  /// arena is full.
  void send(std::span<const int> peers, std::span<const std::int64_t> tags, std::span<const ConstBytes> bytes);
  /// Takes what has come: calls `deliver` with world rank, tag and payload, in the order of sending for each sender.
  /// One thread at a time.
  void receive(const std::function<void(int, std::int64_t, Payload)>& deliver);

 private:
  /// An arena and an offset in it; 0 is none. Means the same in all ranks of the machine.
  using Reference = std::uint64_t;

  static ArenaHead* map(int file, std::size_t bytes);
  RankPanel* panel_of(int index) const;
  ArenaBlock* at(Reference reference) const;
  Reference allocate(std::size_t data_bytes);
  /// Gives a block back once all its readers have.
  void release(Reference reference);
  void push(std::atomic<std::uint64_t>& list, Reference reference);

  int world_rank_;
  int mine_ = 0;
  int file_ = -1;
  std::size_t bytes_ = 0;
  ArenaHead* own_ = nullptr;
  std::vector<ArenaHead*> arenas_;
  std::vector<std::size_t> arena_bytes_;
  std::vector<ProcessId> processes_;

  std::mutex mutex_;  ///< guards the allocator
  std::map<std::size_t, std::vector<Reference>> free_;
  std::size_t used_ = 0;  ///< bytes of the arena that were ever allocated
};

}  // namespace ppctl
