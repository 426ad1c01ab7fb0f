#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "model/tensors.hpp"

namespace ppctl {

/// The backward of an autograd graph in two halves: gradients of inputs first, gradients of weights later, each node's
/// share computed once. It works for any graph of operators that compute only the gradients they are asked for, as all
/// of ATen's do; an operator of the user's that computes all of its gradients at once computes them twice.
///
/// A node where a path to a weight leaves the paths to the inputs is a *boundary*. The first half notes the gradients
/// that arrive at the boundaries; then their edges towards the inputs are cut and everything that only the input
/// gradients needed is freed. The second half starts at the boundaries and runs what is left of the graph, to the
/// weights alone. A weight that is used at several places is summed as the undivided backward sums it.
///
/// Graphs are used by one thread at a time. Hooks on tensors inside the graph run in each half.
class WeightGradSplit {
 public:
  /// First half: gradients of `inputs`, undefined where an input is not reached. `outputs` and `output_grads` are the
  /// roots of the graph (gradients may be undefined: that output got none). REQUIRES: inputs and weights are leaves
  /// that require a gradient.
  static TensorList input_grads(const TensorList& outputs, const TensorList& output_grads, const TensorList& inputs,
                                const TensorList& weights, std::unique_ptr<WeightGradSplit>& second_half);

  /// Second half: gradients of the weights, undefined where a weight is not reached. Call once.
  TensorList weight_grads();

  WeightGradSplit();
  ~WeightGradSplit();
  WeightGradSplit(const WeightGradSplit&) = delete;
  WeightGradSplit& operator=(const WeightGradSplit&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Both halves at once: gradients of `inputs`, then of `weights`; undefined where one is not reached. Frees the graph.
TensorList all_grads(const TensorList& outputs, const TensorList& output_grads, const TensorList& leaves);

}  // namespace ppctl
