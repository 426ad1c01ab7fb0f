#include "comm/mesh_groups.hpp"

#include <gtest/gtest.h>

#include "comm/inproc.hpp"
#include "unit/comm/bytes.hpp"

namespace ppctl {
namespace {

TEST(MeshGroups, SumAlongEveryAxisOfAMesh) {
  const Mesh mesh(2, 3, 2);
  run_inproc(mesh.world_size(), [&](Communicator& communicator) {
    const MeshGroups groups(communicator, mesh);
    const int rank = communicator.transport().rank();
    for (const MeshAxis axis : {MeshAxis::kPipeline, MeshAxis::kDpReplicate, MeshAxis::kDpShard, MeshAxis::kDp,
                                MeshAxis::kExpert, MeshAxis::kExpertData}) {
      Group& group = groups.along(axis);
      EXPECT_EQ(group.size(), mesh.size(axis));
      EXPECT_EQ(group.rank(), mesh.index(axis, rank));
      std::vector<std::int64_t> sum{std::int64_t{1} << rank};
      group.all_reduce(room_of(sum), ElementType::kInt64)->wait(Deadline::after_seconds(20), "sum");
      std::int64_t members = 0;
      for (const int other : mesh.ranks_along(axis, rank)) members |= std::int64_t{1} << other;
      EXPECT_EQ(sum[0], members) << to_string(axis) << ", rank " << rank;
    }
  });
}

}  // namespace
}  // namespace ppctl
