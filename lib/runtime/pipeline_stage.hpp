#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "model/stage_module.hpp"

namespace ppctl {

/// One stage of the pipeline: a module and what it keeps of each microbatch in flight. Computes dx and dw together or
/// apart. Owned by one rank; methods are called by its executor (two threads only inside OVERLAP_B_F: one for forward,
/// one for backwards, never on the same microbatch).
///
/// Steps out of order (a backward without its forward, a weight gradient that nobody queued) throw Bug that names
/// stage, microbatch and step.
class PipelineStage {
 public:
  /// REQUIRES: 0 <= stage_index < num_stages.
  PipelineStage(std::shared_ptr<StageModule> module, int stage_index, int num_stages);

  StageId stage() const { return StageId(stage_index_); }
  int num_stages() const { return num_stages_; }
  bool is_first() const { return stage_index_ == 0; }
  bool is_last() const { return stage_index_ == num_stages_ - 1; }
  StageModule& module() { return *module_; }

  /// Starts a step; drops what a failed step left. The microbatches must stay valid until the next call.
  void begin_step(std::span<const Microbatch> microbatches);
  /// Checks that nothing is left: no activation, no queued weight gradient. Throws Bug that names stage, microbatch and
  /// step.
  void end_step();

  /// Gives what the next stage gets; at the last stage logits, or nothing where there are labels.
  TensorList forward(int microbatch, TensorList inputs);
  /// dx and dw. Gives the gradients of forward's inputs, undefined where an input needs none.
  TensorList backward(int microbatch, TensorList output_grads);
  /// dx; dw is queued.
  TensorList backward_input(int microbatch, TensorList output_grads);
  /// Drains what backward_input queued.
  void backward_weight(int microbatch);

  const Microbatch& microbatch(int index) const { return microbatches_[static_cast<std::size_t>(index)]; }
  /// Loss of each microbatch of this step, on the last stage.
  const std::vector<LossReport>& losses() const { return losses_; }
  /// What is kept between the forward and the backward of a microbatch, for the activation swap.
  SavedActivations& saved(int microbatch) { return saved_[static_cast<std::size_t>(microbatch)]; }
  /// Identities of the memory of what the forward of a microbatch got from and gave to other stages.
  const std::set<const void*>& boundary(int microbatch) const {
    return boundary_[static_cast<std::size_t>(microbatch)];
  }

 private:
  /// Where a microbatch is on its way through this stage.
  enum class Progress : std::uint8_t { kNotSeen, kForwardDone, kInputGradDone, kDone };

  TensorList run_backward(int microbatch, TensorList output_grads, bool defer_weights);
  void advance(int microbatch, Progress from, Progress to, const char* what);

  std::shared_ptr<StageModule> module_;
  int stage_index_;
  int num_stages_;
  std::span<const Microbatch> microbatches_;
  std::vector<SavedActivations> saved_;
  std::vector<std::set<const void*>> boundary_;
  std::vector<LossReport> losses_;
  std::vector<Progress> progress_;
  WeightGradQueue queue_;
};

}  // namespace ppctl
