#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.hpp"

namespace ppctl {

/// An axis of the mesh of ranks.
enum class MeshAxis {
  kPipeline,         ///< pp: the stages of one replica
  kDpReplicate,      ///< dp_replicate: whole copies of a stage
  kDpShard,          ///< dp_shard: the parameters of a stage are cut over it
  kDp,               ///< dp_replicate and dp_shard together: who computes different samples with the same stage
  kExpert,           ///< ep: experts are spread over it; consecutive ranks of kDp, so it adds no ranks
  kExpertData,       ///< the ranks of kDp that hold the same experts
  kExpertShard,      ///< of these, the ranks over which the parameters of the experts are cut
  kExpertReplicate,  ///< of these, the ranks that hold the same part of them
};
inline constexpr std::size_t kNumMeshAxes = 8;
std::string_view to_string(MeshAxis axis);

/// Where a rank is.
struct MeshCoordinates {
  PipelineRank pp;
  int dp_replicate = 0;
  int dp_shard = 0;
  friend bool operator==(const MeshCoordinates&, const MeshCoordinates&) = default;
};

/// The ranks of a job as a mesh: world rank = (pp · DR + dp_replicate) · DS + dp_shard, so that what communicates most,
/// the shards of a stage, are neighbours. A small value type.
///
/// ep consecutive ranks share the experts of a stage: some shards of one replica (where ep divides dp_shard), or all
/// shards of some replicas (where dp_shard divides ep). Experts are cut over the dp_shard / ep ranks of a replica that
/// hold the same ones, at least one, and replicated over the rest.
class Mesh {
 public:
  Mesh() = default;
  /// REQUIRES: all at least 1, and experts_fit().
  Mesh(int pp, int dp_replicate, int dp_shard, int ep = 1);

  /// Whether experts can be spread over ep ranks: ep divides dp_replicate * dp_shard, and one of ep and dp_shard the
  /// other.
  static bool experts_fit(int dp_replicate, int dp_shard, int ep);

  /// Ranks along an axis.
  int size(MeshAxis axis) const;
  /// Ranks of the job.
  int world_size() const { return pp_ * dp_replicate_ * dp_shard_; }

  MeshCoordinates coordinates(int world_rank) const;
  int world_rank(const MeshCoordinates& coordinates) const;
  /// The position of a rank along an axis, 0 .. size(axis) - 1.
  int index(MeshAxis axis, int world_rank) const;
  /// The ranks that differ from `world_rank` along the axis only, itself included, in the order of the axis.
  std::vector<int> ranks_along(MeshAxis axis, int world_rank) const;
  /// All such sets, each once, by their first rank.
  std::vector<std::vector<int>> groups(MeshAxis axis) const;

  /// "pp 4 × dp_replicate 2 × dp_shard 2 (ep 2) = 16 ranks"; axes of one rank are left out.
  std::string to_text() const;

 private:
  int expert_shards() const { return dp_shard_ > ep_ ? dp_shard_ / ep_ : 1; }

  int pp_ = 1;
  int dp_replicate_ = 1;
  int dp_shard_ = 1;
  int ep_ = 1;
};

}  // namespace ppctl
