#include "shard/shard_layout.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace ppctl {

RowRange chunk_of(std::int64_t rows, int count, int index) {
  PPCTL_CHECK(rows >= 0 && index >= 0 && index < count, "chunk {} of {} of {} rows", index, count, rows);
  const std::int64_t chunk = (rows + count - 1) / count;
  return {std::min(rows, index * chunk), std::min(rows, (index + 1) * chunk)};
}

ShardLayout::ShardLayout(const ParameterGroup& group, int count)
    : pieces_(static_cast<std::size_t>(count)), numel_(static_cast<std::size_t>(count), 0) {
  for (int index = 0; index < count; ++index) {
    std::int64_t& end = numel_[static_cast<std::size_t>(index)];
    for (const Parameter& parameter : group.parameters()) {
      const std::int64_t rows = parameter.shape.empty() ? 1 : parameter.shape[0];
      const std::int64_t row = rows == 0 ? 0 : parameter.numel / rows;
      ShardPiece piece;
      piece.rows = chunk_of(rows, count, index);
      piece.numel = piece.rows.size() * row;
      piece.flat_offset = parameter.offset + piece.rows.begin * row;
      piece.shard_offset = count == 1 ? parameter.offset : end;
      end = piece.shard_offset + piece.numel;
      pieces_[static_cast<std::size_t>(index)].push_back(piece);
    }
    if (count == 1) end = group.numel();
  }
}

}  // namespace ppctl
