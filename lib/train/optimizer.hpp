#pragma once

#include <cstdint>
#include <vector>

#include "config/job_config.hpp"
#include "shard/group_shard.hpp"

namespace ppctl {

/// AdamW with decoupled weight decay (Loshchilov and Hutter, 2019), in the order of torch.optim.AdamW:
///   p *= 1 − lr·wd;  p −= lr / (1 − β1^t) · m / (√v / √(1 − β2^t) + eps)
/// Frozen parameters are left as they are. Every use of a tied weight is updated; with the same values and the same
/// summed gradient they stay equal. Works on the rows that this rank owns, on master values. One thread.
class AdamW {
 public:
  /// Allocates the moments, of the masters' dtype. The shards must outlive the optimizer.
  AdamW(const OptimizerConfig& config, std::vector<GroupShard*> shards);

  /// One update with the gradients as they are in the shards; then what is computed with follows the masters.
  void step(double lr);
  /// Brings what is computed with up to date with masters that were changed through states().
  void publish() const;

  /// What a checkpoint keeps of one parameter: this rank's rows. Views: reading fills them.
  struct State {
    const Parameter* parameter = nullptr;
    RowRange rows;
    at::Tensor data;        ///< the master values
    at::Tensor exp_avg;     ///< undefined for a frozen parameter
    at::Tensor exp_avg_sq;  ///< undefined for a frozen parameter
  };
  std::vector<State> states();

  /// All that step() changes besides num_steps(): views of parameters and moments.
  std::vector<at::Tensor> buffers() const;

  std::int64_t num_steps() const { return num_steps_; }
  void set_num_steps(std::int64_t steps) { num_steps_ = steps; }

 private:
  /// Moments of a group, laid out as the shard's flat buffers; undefined where all of it is frozen.
  struct Moments {
    GroupShard* shard = nullptr;
    at::Tensor exp_avg;
    at::Tensor exp_avg_sq;
  };
  /// Tensors that are updated alike: consecutive parameters of a group are one tensor. The layout of a shard does not
  /// depend on the pipeline, so neither does the arithmetic of an element.
  struct Bucket {
    double weight_decay = 0.0;
    std::vector<at::Tensor> data, grad, exp_avg, exp_avg_sq;
  };

  void add_to_buckets(const Moments& moments);

  OptimizerConfig config_;
  std::vector<Moments> moments_;
  std::vector<Bucket> buckets_;  ///< decayed, not decayed
  std::int64_t num_steps_ = 0;
};

}  // namespace ppctl
