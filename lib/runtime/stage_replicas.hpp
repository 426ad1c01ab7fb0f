#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/transport.hpp"
#include "shard/group_shard.hpp"
#include "topology/placement.hpp"

namespace ppctl {

/// In a bidirectional placement two ranks hold each stage and each runs half of the microbatches on it. After a step
/// the two halves of the gradient are added, so that both copies make the same update. Two numbers have one sum in
/// either order: the result is fixed. With every other placement there is nothing to do.
class StageReplicas {
 public:
  /// COLLECTIVE over the pipeline, without communication. `world_ranks` by pipeline rank; `stages` are this rank's,
  /// with shards that outlive the object.
  StageReplicas(Communicator& communicator, const Placement& placement, PipelineRank rank,
                const std::vector<int>& world_ranks, std::span<const StageShards> stages,
                const std::string& name = "replicas");

  bool empty() const { return stages_.empty(); }
  /// COLLECTIVE over the pipeline. Once a step, before TiedWeights::sum_grads.
  void sum_grads(Deadline deadline);

 private:
  std::unique_ptr<Group> pair_;
  std::vector<StageShards> stages_;  ///< ascending: the same order on both ranks
};

}  // namespace ppctl
