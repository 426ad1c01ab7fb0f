#include "shard/shard_layout.hpp"

#include <gtest/gtest.h>

namespace ppctl {
namespace {

ParameterGroup some_group() {
  ParameterGroup group("layer", at::kFloat);
  group.add({.name = "q", .shape = {5, 3}});
  group.add({.name = "k", .shape = {2, 3}}, /*merge_with_previous=*/true);
  group.add({.name = "norm", .shape = {7}});
  group.add({.name = "scalar", .shape = {}});
  return group;
}

TEST(ChunkOf, CutsAsTorchDoes) {
  for (const int count : {1, 2, 3, 4, 7}) {
    for (const std::int64_t rows : {1, 2, 5, 7, 8, 21}) {
      const std::vector<at::Tensor> chunks = at::arange(rows).chunk(count);
      for (int index = 0; index < count; ++index) {
        const RowRange mine = chunk_of(rows, count, index);
        if (index < static_cast<int>(chunks.size())) {
          EXPECT_EQ(mine.size(), chunks[index].size(0)) << rows << " rows, chunk " << index << " of " << count;
          EXPECT_EQ(mine.begin, chunks[index][0].item<std::int64_t>());
        } else {
          EXPECT_EQ(mine.size(), 0) << rows << " rows, chunk " << index << " of " << count;
        }
      }
    }
  }
}

TEST(ShardLayout, CutsEveryParameterForItselfWithoutPadding) {
  const ParameterGroup group = some_group();
  const ShardLayout layout(group, 2);
  const auto& first = layout.pieces(0);
  EXPECT_EQ(first[0].rows, (RowRange{0, 3}));
  EXPECT_EQ(first[1].rows, (RowRange{0, 1}));
  EXPECT_EQ(first[1].flat_offset, 15);
  EXPECT_EQ(first[1].shard_offset, 9);
  EXPECT_EQ(first[2].shard_offset, 12);
  EXPECT_EQ(layout.numel(0), 9 + 3 + 4 + 1);
  const auto& second = layout.pieces(1);
  EXPECT_EQ(second[0].rows, (RowRange{3, 5}));
  EXPECT_EQ(second[0].flat_offset, 9);
  EXPECT_EQ(second[3].numel, 0) << "a scalar has one row";
  EXPECT_EQ(layout.numel(1), 6 + 3 + 3 + 0);
}

TEST(ShardLayout, LeavesRanksWithoutRows) {
  const ParameterGroup group = some_group();
  const ShardLayout layout(group, 8);
  EXPECT_EQ(layout.pieces(5)[0].numel, 0);
  EXPECT_EQ(layout.numel(7), 0);
  std::int64_t all = 0;
  for (int index = 0; index < 8; ++index) all += layout.numel(index);
  EXPECT_EQ(all, 15 + 6 + 7 + 1);
}

TEST(ShardLayout, OfOneRankIsTheFlatBuffer) {
  const ParameterGroup group = some_group();
  const ShardLayout layout(group, 1);
  for (const ShardPiece& piece : layout.pieces(0)) EXPECT_EQ(piece.shard_offset, piece.flat_offset);
  EXPECT_EQ(layout.numel(0), group.numel());
}

}  // namespace
}  // namespace ppctl
