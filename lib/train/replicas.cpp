#include "train/replicas.hpp"

#include "runtime/tensor_bytes.hpp"

namespace ppctl {

GradReplicas::GradReplicas(Group& group, std::vector<GroupShard*> shards, at::ScalarType reduce_dtype)
    : group_(group), shards_(std::move(shards)), reduce_dtype_(reduce_dtype) {}

void GradReplicas::sum_grads(Deadline deadline) {
  if (group_.size() == 1) return;
  std::vector<at::Tensor> travelling;
  std::vector<RequestPtr> requests;
  for (const GroupShard* shard : shards_) {
    if (!shard->trainable()) continue;
    const at::Tensor grad = shard->flat_grad().to(reduce_dtype_);  // itself where it has that dtype
    requests.push_back(group_.all_reduce(mutable_bytes(grad), element_type(reduce_dtype_)));
    travelling.push_back(grad);
  }
  std::size_t next = 0;
  for (const GroupShard* shard : shards_) {
    if (!shard->trainable()) continue;
    requests[next]->wait(deadline, "sum of gradients over replicas");
    if (!travelling[next].is_same(shard->flat_grad())) shard->flat_grad().copy_(travelling[next]);
    ++next;
  }
}

}  // namespace ppctl
