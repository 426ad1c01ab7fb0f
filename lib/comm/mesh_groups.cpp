#include "comm/mesh_groups.hpp"

#include <string>

#include "base/error.hpp"

namespace ppctl {

MeshGroups::MeshGroups(Communicator& communicator, const Mesh& mesh) : mesh_(mesh) {
  const Transport& transport = communicator.transport();
  PPCTL_CHECK_EQ(transport.size(), mesh.world_size());
  for (std::size_t i = 0; i < kNumMeshAxes; ++i) {
    const auto axis = static_cast<MeshAxis>(i);
    groups_[i] = communicator.group(mesh.ranks_along(axis, transport.rank()), "mesh " + std::string(to_string(axis)));
  }
}

}  // namespace ppctl
