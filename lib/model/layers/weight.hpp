#pragma once

#include <string>
#include <vector>

#include "model/parameters.hpp"
#include "model/weight_grad_queue.hpp"

namespace ppctl {

/// One parameter of a group, or several merged ones, as a layer uses it. Declared first, bound to its views once the
/// group is allocated. Keeps a pointer to the group.
class Weight {
 public:
  Weight() = default;
  /// Declares `parameters` in `group`, merged into one matrix (or vector) in their order.
  Weight(ParameterGroup& group, std::vector<Parameter> parameters);

  bool declared() const { return group_ != nullptr; }
  void bind();

  const at::Tensor& data() const { return data_; }
  const at::Tensor& grad() const { return grad_; }
  /// What a backward that knows the gradient at once adds it to: the accumulator, or a buffer that `queue` adds to it
  /// once the microbatch's weight gradients are wanted. Undefined where all of it is frozen.
  at::Tensor wanted_grad(WeightGradQueue& queue) const;
  bool any_trainable() const;
  bool all_trainable() const;
  int num_parts() const { return count_; }
  const Parameter& part(int index) const { return group_->parameters()[first_ + index]; }

 private:
  ParameterGroup* group_ = nullptr;
  int first_ = 0;
  int count_ = 0;
  at::Tensor data_;
  at::Tensor grad_;
};

}  // namespace ppctl
