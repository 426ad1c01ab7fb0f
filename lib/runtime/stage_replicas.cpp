#include "runtime/stage_replicas.hpp"

#include <algorithm>

#include "runtime/tensor_bytes.hpp"

namespace ppctl {

StageReplicas::StageReplicas(Communicator& communicator, const Placement& placement, PipelineRank rank,
                             const std::vector<int>& world_ranks, std::span<const StageShards> stages,
                             const std::string& name) {
  if (placement.kind() != PlacementKind::kBidirectional) return;
  stages_.assign(stages.begin(), stages.end());
  std::sort(stages_.begin(), stages_.end(),
            [](const StageShards& a, const StageShards& b) { return a.stage < b.stage; });
  const int mirror = placement.pp() - 1 - rank.value;
  const std::vector<int> pair = {world_ranks[static_cast<std::size_t>(std::min(rank.value, mirror))],
                                 world_ranks[static_cast<std::size_t>(std::max(rank.value, mirror))]};
  pair_ = communicator.group(pair, name);
}

void StageReplicas::sum_grads(Deadline deadline) {
  for (const StageShards& stage : stages_) {
    for (const GroupShard* shard : stage.groups) {
      if (!shard->trainable()) continue;
      const at::Tensor& grad = shard->flat_grad();
      pair_->all_reduce(mutable_bytes(grad), element_type(grad.scalar_type()))
          ->wait(deadline, "gradients of a stage's two copies");
    }
  }
}

}  // namespace ppctl
