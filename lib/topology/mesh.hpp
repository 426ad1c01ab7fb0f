#pragma once

#include <vector>

#include "base/ids.hpp"

namespace ppctl {

/// Where a rank of the job is on the axes of the device mesh.
struct MeshCoordinates {
  int pp = 0;
  int dp_replicate = 0;
  int dp_shard = 0;

  friend bool operator==(const MeshCoordinates&, const MeshCoordinates&) = default;
};

/// The device mesh pp × dp_replicate × dp_shard, row-major (the last axis changes fastest), so that the ranks that
/// exchange most, those of dp_shard, are neighbours. A small value type.
class Mesh {
 public:
  /// REQUIRES: all at least 1.
  Mesh(int pp, int dp_replicate, int dp_shard);

  int size() const { return pp_ * dp(); }
  int pp() const { return pp_; }
  /// Replicas that see different data.
  int dp() const { return dp_replicate_ * dp_shard_; }

  MeshCoordinates coordinates(int world_rank) const;
  int world_rank(const MeshCoordinates& coordinates) const;
  /// Number of the replica that a rank belongs to, 0 .. dp() - 1.
  int replica_of(int world_rank) const { return world_rank % dp(); }

  /// The ranks of this rank's pipeline, by pipeline rank.
  std::vector<int> pp_ranks(int world_rank) const;
  /// The ranks that hold the same stages, by replica.
  std::vector<int> dp_ranks(int world_rank) const;

 private:
  int pp_;
  int dp_replicate_;
  int dp_shard_;
};

}  // namespace ppctl
