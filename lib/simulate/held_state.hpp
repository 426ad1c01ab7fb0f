#pragma once

#include <cstdint>
#include <vector>

#include "simulate/rank_memory.hpp"

namespace ppctl {

/// The bytes of one group of parameters on a rank.
struct GroupBytes {
  std::int64_t whole = 0;       ///< in the dtype of computing
  std::int64_t whole_grad = 0;  ///< in the dtype of masters
  std::int64_t shard = 0;       ///< this rank's rows, in the dtype of masters
  std::int64_t shard_elements = 0;
  std::int64_t ranks = 1;  ///< that share it; it is whole where that is 1
  bool trained = true;

  bool is_sharded() const { return ranks > 1; }
  /// Its gradients are there within a step alone, and are summed over the ranks.
  bool is_reduced() const { return is_sharded() && trained; }
};

/// The parameters and gradients of one stage of a rank while a step runs: what UNSHARD, RESHARD and REDUCE_GRAD do to
/// them. With one shard they are there all the time and these steps do nothing.
class HeldState {
 public:
  HeldState(const MemoryModel& model, int stage);
  HeldState(const MemoryModel& model, const StageRange& range);

  /// Adds what lives between steps.
  void add_to(RankMemory& memory) const;

  void unshard();
  void reshard();
  /// Whole gradients have memory from the first weight gradient on.
  void before_weight_grads();
  /// Returns the most that lives during the reduction, beyond what gradients() is afterwards.
  std::int64_t reduce_grad();

  std::int64_t unsharded() const { return unsharded_; }
  bool is_sharded() const;
  /// Of groups that are trained: of this rank's rows, or whole.
  std::vector<std::int64_t> trained_group_bytes(bool shards) const;
  /// The sum of whole ones.
  std::int64_t trained_gradients() const;
  /// What reductions have left is moved elsewhere.
  void clear_shard_gradients() { shard_grads_ = 0; }
  std::int64_t gradients() const { return whole_grads_ + shard_grads_; }

 private:
  std::vector<GroupBytes> groups_;
  std::int64_t element_bytes_;
  std::int64_t reduce_bytes_;
  std::int64_t unsharded_ = 0;
  std::int64_t whole_grads_ = 0;
  std::int64_t shard_grads_ = 0;
  std::int64_t tables_ = 0;
};

}  // namespace ppctl
