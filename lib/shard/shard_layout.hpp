#pragma once

#include <cstdint>
#include <vector>

#include "model/parameters.hpp"

namespace ppctl {

/// Rows begin .. end - 1 of a tensor's dim 0.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

/// Chunk `index` of `count`, as torch.chunk cuts `rows`: all have ceil(rows / count) but the last ones, which may have
/// fewer, or none.
RowRange chunk_of(std::int64_t rows, int count, int index);

/// The rows of one parameter that one rank owns.
struct ShardPiece {
  RowRange rows;
  std::int64_t numel = 0;
  std::int64_t flat_offset = 0;   ///< elements from the start of the group's flat buffer
  std::int64_t shard_offset = 0;  ///< elements from the start of the rank's shard
};

/// How a group's parameters are cut over `count` ranks: each for itself, on dim 0. A rank's shard is its pieces one
/// behind the other; where there is one rank, it is the group's flat buffer as it is, padding included.
class ShardLayout {
 public:
  /// REQUIRES: count >= 1.
  ShardLayout(const ParameterGroup& group, int count);

  int count() const { return static_cast<int>(pieces_.size()); }
  /// The pieces of a rank, one a parameter, in the order of the group.
  const std::vector<ShardPiece>& pieces(int index) const { return pieces_[static_cast<std::size_t>(index)]; }
  /// Elements of a rank's shard.
  std::int64_t numel(int index) const { return numel_[static_cast<std::size_t>(index)]; }

 private:
  std::vector<std::vector<ShardPiece>> pieces_;
  std::vector<std::int64_t> numel_;
};

}  // namespace ppctl
