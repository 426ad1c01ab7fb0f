#pragma once

#include <any>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/expert_exchange.hpp"
#include "model/parameters.hpp"
#include "model/tensors.hpp"
#include "model/weight_grad_queue.hpp"

namespace ppctl {

/// What a stage knows of the microbatch it runs. The same on every rank.
struct Microbatch {
  std::int64_t step = 0;
  int index = 0;                  ///< in this replica's step
  std::int64_t global_index = 0;  ///< in the whole step, over replicas
  std::int64_t first_sample = 0;  ///< global number of its first sample: dropout depends on it
  bool training = true;           ///< dropout on, state kept for a backward
  /// What multiplies the gradient of the sum of token losses: 1 / labelled tokens of the global batch.
  double loss_scale = 1.0;
  /// What multiplies the gradient of this microbatch's auxiliary loss: 1 / microbatches of the whole step.
  double aux_scale = 1.0;
  TensorList args;   ///< the first stage's positional inputs, where this rank holds the first stage
  TensorMap kwargs;  ///< keyword inputs of every stage of this rank ("labels" on the last stage)
};

/// The losses of one microbatch, known where the last stage is.
struct LossReport {
  double loss_sum = 0.0;        ///< sum over labelled tokens
  std::int64_t num_labels = 0;  ///< labelled tokens (-100 does not count); none is no error
  double aux_loss = 0.0;        ///< auxiliary loss of this microbatch, its coefficient included

  double mean() const { return num_labels > 0 ? loss_sum / static_cast<double>(num_labels) : 0.0; }
};

/// What a module keeps of one microbatch between its forward and its backward (or its last weight gradient). Built-in
/// layers put tensors there in order and take them back in reverse order, so what is saved is known exactly: the
/// activation swap packs `tensors`, the memory model adds them up.
struct SavedActivations {
  /// Of `tensors`: from `begin` to before `end`.
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  TensorList tensors;
  std::vector<std::int64_t> integers;
  std::any extra;  ///< of modules that are not built in (the autograd graph)
  // What swap_wrapper() is around: may leave memory until the backward.
  std::vector<Range> swapped;
  std::vector<WeakTensor> swapped_elsewhere;  ///< kept by `extra`

  void push(at::Tensor tensor) { tensors.push_back(std::move(tensor)); }
  at::Tensor pop() {
    at::Tensor last = std::move(tensors.back());
    tensors.pop_back();
    return last;
  }
};

/// The model part that a PipelineStage runs. Used by one thread at a time, except under overlap_b_f, where forward of
/// one microbatch and backward of another run at once; so forward writes only to `saved` and backward only to
/// gradients.
class StageModule {
 public:
  virtual ~StageModule() = default;

  /// Runs one microbatch. `inputs` are the previous stage's outputs (empty at the first stage, which reads
  /// microbatch.args). Returns what the next stage gets; the last stage returns nothing and fills `loss` if there are
  /// labels, or returns logits if there are none. With microbatch.training false nothing is saved.
  virtual TensorList forward(const Microbatch& microbatch, TensorList inputs, SavedActivations& saved,
                             LossReport* loss) = 0;

  /// Gradients of the objective with respect to the inputs of forward: one tensor an input, undefined where an input
  /// needs none. Weight gradients go through `queue` and accumulate into the groups' gradient buffers. `output_grads`
  /// is empty at the last stage.
  virtual TensorList backward(const Microbatch& microbatch, TensorList output_grads, SavedActivations& saved,
                              WeightGradQueue& queue) = 0;

  /// One group a layer, and one for its experts, in forward order; none for a stage without parameters.
  virtual std::vector<ParameterGroup*> parameter_groups() = 0;

  /// Gives the way to the experts that other ranks hold: needed before the first forward where there are such, and
  /// replaced by a decorator. Not owned.
  virtual void set_expert_exchange(ExpertExchange* /*exchange*/) {}
};

}  // namespace ppctl
