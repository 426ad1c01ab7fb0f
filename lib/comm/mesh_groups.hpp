#pragma once

#include <array>
#include <memory>

#include "comm/transport.hpp"
#include "topology/mesh.hpp"

namespace ppctl {

/// The groups that one rank is in along the axes of a mesh: its pipeline, the ranks that share its parameters, those
/// that replicate them, and so on. Groups of one axis, and of different axes, are independent.
class MeshGroups {
 public:
  /// COLLECTIVE over the ranks of the mesh, which are all of the communicator's; without communication. The
  /// communicator must outlive the object.
  MeshGroups(Communicator& communicator, const Mesh& mesh);

  const Mesh& mesh() const { return mesh_; }
  /// This rank's group along an axis; of this rank alone where the axis has one rank.
  Group& along(MeshAxis axis) const { return *groups_[static_cast<std::size_t>(axis)]; }

 private:
  Mesh mesh_;
  std::array<std::unique_ptr<Group>, kNumMeshAxes> groups_;
};

}  // namespace ppctl
