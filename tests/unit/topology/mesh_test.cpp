#include "topology/mesh.hpp"

#include <gtest/gtest.h>

#include <set>

#include "base/error.hpp"

namespace ppctl {
namespace {

using Ranks = std::vector<int>;

TEST(Mesh, NumbersShardsOfAStageOneAfterTheOther) {
  const Mesh mesh(2, 2, 2);
  EXPECT_EQ(mesh.world_rank({PipelineRank(0), 0, 1}), 1);
  EXPECT_EQ(mesh.world_rank({PipelineRank(0), 1, 0}), 2);
  EXPECT_EQ(mesh.world_rank({PipelineRank(1), 0, 0}), 4);
  EXPECT_EQ(mesh.coordinates(7), (MeshCoordinates{PipelineRank(1), 1, 1}));
}

TEST(Mesh, ListsTheRanksAlongEachAxis) {
  const Mesh mesh(2, 2, 4, 2);
  EXPECT_EQ(mesh.ranks_along(MeshAxis::kPipeline, 11), (Ranks{3, 11}));
  EXPECT_EQ(mesh.ranks_along(MeshAxis::kDpReplicate, 11), (Ranks{11, 15}));
  EXPECT_EQ(mesh.ranks_along(MeshAxis::kDpShard, 11), (Ranks{8, 9, 10, 11}));
  EXPECT_EQ(mesh.ranks_along(MeshAxis::kDp, 11), (Ranks{8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(mesh.ranks_along(MeshAxis::kExpert, 11), (Ranks{10, 11}));
  EXPECT_EQ(mesh.ranks_along(MeshAxis::kExpertData, 11), (Ranks{9, 11, 13, 15}));
  EXPECT_EQ(mesh.ranks_along(MeshAxis::kExpertShard, 11), (Ranks{9, 11}));
  EXPECT_EQ(mesh.ranks_along(MeshAxis::kExpertReplicate, 11), (Ranks{11, 15}));
}

TEST(Mesh, SpreadsExpertsOverReplicasWhereTheShardsOfOneAreTooFew) {
  const Mesh mesh(1, 4, 2, 4);
  EXPECT_EQ(mesh.ranks_along(MeshAxis::kExpert, 6), (Ranks{4, 5, 6, 7}));
  EXPECT_EQ(mesh.ranks_along(MeshAxis::kExpertShard, 6), (Ranks{6}));
  EXPECT_EQ(mesh.ranks_along(MeshAxis::kExpertReplicate, 6), (Ranks{2, 6}));
  EXPECT_FALSE(Mesh::experts_fit(2, 6, 4));
  EXPECT_FALSE(Mesh::experts_fit(1, 2, 4));
}

TEST(Mesh, CutsTheWorldIntoGroupsAlongEveryAxis) {
  for (const MeshAxis axis :
       {MeshAxis::kPipeline, MeshAxis::kDpReplicate, MeshAxis::kDpShard, MeshAxis::kDp, MeshAxis::kExpert,
        MeshAxis::kExpertData, MeshAxis::kExpertShard, MeshAxis::kExpertReplicate}) {
    const Mesh mesh(3, 2, 4, 2);
    std::multiset<int> seen;
    for (const Ranks& group : mesh.groups(axis)) {
      EXPECT_EQ(static_cast<int>(group.size()), mesh.size(axis));
      for (std::size_t i = 0; i < group.size(); ++i) {
        EXPECT_EQ(mesh.index(axis, group[i]), static_cast<int>(i)) << to_string(axis);
        EXPECT_EQ(mesh.ranks_along(axis, group[i]), group) << to_string(axis);
      }
      seen.insert(group.begin(), group.end());
    }
    EXPECT_EQ(seen.size(), 24u) << to_string(axis);
    EXPECT_EQ(*seen.rbegin(), 23) << to_string(axis);
  }
}

TEST(Mesh, GivesEveryRankItsOwnCoordinates) {
  const Mesh mesh(4, 3, 2);
  for (int rank = 0; rank < mesh.world_size(); ++rank) EXPECT_EQ(mesh.world_rank(mesh.coordinates(rank)), rank);
}

TEST(Mesh, SaysItsShape) {
  EXPECT_EQ(Mesh().to_text(), "1 rank");
  EXPECT_EQ(Mesh(4, 1, 1).to_text(), "pp 4 = 4 ranks");
  EXPECT_EQ(Mesh(4, 2, 2, 2).to_text(), "pp 4 × dp_replicate 2 × dp_shard 2 (ep 2) = 16 ranks");
}

TEST(Mesh, RefusesExpertsThatDoNotFitTheShards) {
  EXPECT_THROW(Mesh(2, 4, 3, 2), Bug);
  EXPECT_THROW(Mesh(0, 1, 1), Bug);
  EXPECT_THROW(Mesh(2, 2, 2).coordinates(8), Bug);
}

}  // namespace
}  // namespace ppctl
