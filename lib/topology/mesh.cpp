#include "topology/mesh.hpp"

#include "base/error.hpp"

namespace ppctl {

Mesh::Mesh(int pp, int dp_replicate, int dp_shard) : pp_(pp), dp_replicate_(dp_replicate), dp_shard_(dp_shard) {
  PPCTL_CHECK(pp >= 1 && dp_replicate >= 1 && dp_shard >= 1, "mesh {} x {} x {}", pp, dp_replicate, dp_shard);
}

MeshCoordinates Mesh::coordinates(int world_rank) const {
  PPCTL_CHECK(world_rank >= 0 && world_rank < size(), "rank {} of {}", world_rank, size());
  return {world_rank / dp(), world_rank / dp_shard_ % dp_replicate_, world_rank % dp_shard_};
}

int Mesh::world_rank(const MeshCoordinates& at) const {
  return (at.pp * dp_replicate_ + at.dp_replicate) * dp_shard_ + at.dp_shard;
}

std::vector<int> Mesh::pp_ranks(int world_rank) const {
  std::vector<int> ranks;
  for (int rank = replica_of(world_rank); rank < size(); rank += dp()) ranks.push_back(rank);
  return ranks;
}

std::vector<int> Mesh::dp_ranks(int world_rank) const {
  std::vector<int> ranks;
  const int first = world_rank / dp() * dp();
  for (int rank = first; rank < first + dp(); ++rank) ranks.push_back(rank);
  return ranks;
}

}  // namespace ppctl
