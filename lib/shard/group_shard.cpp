#include "shard/group_shard.hpp"

#include "base/error.hpp"
#include "model/flat_storage.hpp"

namespace ppctl {

GroupShard::GroupShard(ParameterGroup& group, int index, int count)
    : group_(&group), layout_(group, count), index_(index) {
  PPCTL_CHECK(index >= 0 && index < count, "shard {} of {}", index, count);
  const at::ScalarType dtype = master_dtype(group.dtype());
  if (is_whole()) {
    master_ = group.flat_data().to(dtype);  // itself where it has that dtype
    grad_ = group.flat_grad();
    return;
  }
  master_ = at::zeros({layout_.numel(index)}, at::TensorOptions().dtype(dtype));
  grad_ = at::empty(master_.sizes(), master_.options());
  take_from(group.flat_data());
  release_storage(grad_);
  release_storage(group.flat_data());
  release_storage(group.flat_grad());
}

void GroupShard::fill(const std::function<void(const at::Tensor& flat)>& write) {
  if (is_whole()) {
    write(master_);
    publish();
    return;
  }
  const at::Tensor flat = at::empty({group_->numel()}, master_.options());
  write(flat);
  take_from(flat);
}

at::Tensor GroupShard::view(const at::Tensor& flat, int parameter) const {
  const ShardPiece& own = piece(parameter);
  std::vector<std::int64_t> shape = parameters()[static_cast<std::size_t>(parameter)].shape;
  if (shape.empty() && own.numel == 0) shape.push_back(0);
  if (!shape.empty()) shape[0] = own.rows.size();
  return flat.narrow(0, own.shard_offset, own.numel).view(shape);
}

void GroupShard::take_from(const at::Tensor& flat) const {
  for (const ShardPiece& own : layout_.pieces(index_)) {
    master_.narrow(0, own.shard_offset, own.numel).copy_(flat.narrow(0, own.flat_offset, own.numel));
  }
}

void GroupShard::copy_to(const at::Tensor& flat) const {
  for (const ShardPiece& own : layout_.pieces(index_)) {
    flat.narrow(0, own.flat_offset, own.numel).copy_(master_.narrow(0, own.shard_offset, own.numel));
  }
}

void GroupShard::publish() const {
  if (is_whole() && group_->dtype() != master_.scalar_type()) group_->flat_data().copy_(master_);
}

void GroupShard::clear_grads() const {
  if (is_whole()) {
    group_->zero_grad();
  } else {
    release_storage(grad_);
  }
}

}  // namespace ppctl
