#pragma once

#include <functional>
#include <vector>

#include "base/ids.hpp"
#include "model/parameters.hpp"
#include "shard/shard_layout.hpp"

namespace ppctl {

/// What one rank owns of a parameter group: the master values that the optimizer updates and the gradient that it
/// updates them with, of its own rows, flat, in master_dtype. This is what lives between steps; the group's own buffers
/// are what is computed with.
///
/// With one rank a shard is the whole group: master and gradient are the group's own buffers, except that bfloat16
/// weights have their masters apart. With several, the group's buffers have memory only while Fsdp gives them some, and
/// so has the gradient of the shard.
class GroupShard {
 public:
  /// Shard `index` of `count`, with the values that the group has. Frees the memory of the group's buffers where count
  /// > 1. The group must be allocated and outlive the shard.
  explicit GroupShard(ParameterGroup& group, int index = 0, int count = 1);

  /// Sets the values: `write` fills a flat buffer with the group's layout, in master_dtype.
  void fill(const std::function<void(const at::Tensor& flat)>& write);

  ParameterGroup& group() const { return *group_; }
  const std::vector<Parameter>& parameters() const { return group_->parameters(); }
  bool trainable() const { return group_->trainable(); }
  const ShardLayout& layout() const { return layout_; }
  int index() const { return index_; }
  int count() const { return layout_.count(); }
  bool is_whole() const { return count() == 1; }
  /// The rows of a parameter that are here.
  RowRange rows(int parameter) const { return piece(parameter).rows; }

  /// Flat, layout().numel(index()) elements.
  const at::Tensor& flat_master() const { return master_; }
  const at::Tensor& flat_grad() const { return grad_; }
  /// Views of one parameter's rows: [rows, shape[1], ...].
  at::Tensor master(int parameter) const { return view(master_, parameter); }
  at::Tensor grad(int parameter) const { return view(grad_, parameter); }
  /// The part of `flat`, a tensor with the layout of the shard, that holds a parameter's rows.
  at::Tensor view(const at::Tensor& flat, int parameter) const;

  /// Brings what is computed with up to date with masters that have changed. Nothing where the two are one, or where
  /// the next all-gather does it.
  void publish() const;
  /// Copies the masters into their rows of `flat`, which has the layout of the group, rounding to its dtype.
  void copy_to(const at::Tensor& flat) const;
  /// Sets the gradients of a whole group to zero; frees those of a shard, which a reduction makes anew.
  void clear_grads() const;

 private:
  void take_from(const at::Tensor& flat) const;
  const ShardPiece& piece(int parameter) const { return layout_.pieces(index_)[static_cast<std::size_t>(parameter)]; }

  ParameterGroup* group_;
  ShardLayout layout_;
  int index_;
  at::Tensor master_;
  at::Tensor grad_;
};

/// The shards of one stage of this rank, in forward order. Not owned.
struct StageShards {
  StageId stage;
  std::vector<GroupShard*> groups;
};

}  // namespace ppctl
