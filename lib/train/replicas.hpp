#pragma once

#include <vector>

#include "base/clock.hpp"
#include "comm/transport.hpp"
#include "shard/group_shard.hpp"

namespace ppctl {

/// Replicas of the model that see different data (dp_replicate): after the backwards of a step their gradients, with
/// FSDP those of each shard, are summed in the order of the replicas, so that all make the same update.
class GradReplicas {
 public:
  /// `group`: the ranks with the same shards of the same stages, by replica. Gradients travel in `reduce_dtype`. Group
  /// and shards must outlive the object.
  GradReplicas(Group& group, std::vector<GroupShard*> shards, at::ScalarType reduce_dtype = at::kFloat);

  /// COLLECTIVE over the replicas.
  void sum_grads(Deadline deadline);

 private:
  Group& group_;
  std::vector<GroupShard*> shards_;
  at::ScalarType reduce_dtype_;
};

}  // namespace ppctl
