#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "comm/edge_buffers.hpp"

namespace ppctl {

/// The receive buffers of the edges of one kind between a rank and its peers, as a walk along the rank's steps uses
/// them: a receive is posted, its message taken, and the buffer let go of once nobody holds the tensors. A peer's
/// blocks are kept in classes of size and used again.
class PeerBuffers {
 public:
  /// A receive of one tensor of `bytes`, and a second one of `aux` unless that is 0.
  void post(int peer, std::int64_t bytes, std::int64_t aux) {
    Pool& pool = pools_[peer];
    const EdgeBufferBytes block = edge_buffer_bytes(static_cast<std::size_t>(bytes), static_cast<std::size_t>(aux));
    Uses& uses = pool.by_bytes[bytes];
    uses.block = block.steady;
    uses.fits_first = block.fits_first;
    uses.most = std::max(uses.most, ++uses.now);
    pool.first_block = block.first;
    pool.most_posted = std::max(pool.most_posted, ++pool.posted);
  }
  void take(int peer, std::int64_t bytes) {
    Pool& pool = pools_[peer];
    --pool.posted;
    Uses& uses = pool.by_bytes[bytes];
    if (!uses.fits_first) uses.most_at_first = std::max(uses.most_at_first, uses.now + 1);
  }
  void release(int peer, std::int64_t bytes) { --pools_[peer].by_bytes[bytes].now; }

  std::int64_t bytes() const {
    std::size_t sum = 0;
    for (const auto& [peer, pool] : pools_) {
      // The first message of each tag has its header in a block of its own until its payload has one too.
      std::map<std::size_t, int> blocks;
      for (const auto& [bytes, uses] : pool.by_bytes) {
        blocks[uses.block] += uses.block == pool.first_block ? std::max(uses.most, uses.most_at_first) : uses.most;
      }
      if (!blocks.contains(pool.first_block)) blocks[pool.first_block] = pool.most_posted;
      for (const auto& [block, count] : blocks) sum += block * static_cast<std::size_t>(count);
    }
    return static_cast<std::int64_t>(sum);
  }

 private:
  struct Uses {
    std::size_t block = 0;
    bool fits_first = false;
    int now = 0;
    int most = 0;
    int most_at_first = 0;  ///< with the block of a header
  };
  struct Pool {
    std::map<std::int64_t, Uses> by_bytes;
    std::size_t first_block = 0;
    int posted = 0;
    int most_posted = 0;
  };
  std::map<int, Pool> pools_;  ///< by pipeline rank
};

}  // namespace ppctl
