#pragma once

#include <memory>
#include <vector>

#include "base/ids.hpp"
#include "model/stage_module.hpp"

namespace ppctl {

/// One stage of the pipeline: a module and what it keeps of each microbatch in flight. Computes dx and dw together or apart.
/// Owned by one rank; methods are called by its executor (two threads only inside OVERLAP_B_F).
class PipelineStage {
 public:
  /// REQUIRES: 0 <= stage_index < num_stages.
  PipelineStage(std::shared_ptr<StageModule> module, int stage_index, int num_stages);

  StageId stage() const { return StageId(stage_index_); }
  int num_stages() const { return num_stages_; }
  bool is_first() const { return stage_index_ == 0; }
  bool is_last() const { return stage_index_ == num_stages_ - 1; }
  StageModule& module() { return *module_; }

  /// Starts a step of `microbatches` microbatches; drops what a failed step left.
  void begin_step(std::vector<Microbatch> microbatches);
  /// Checks that nothing is left: no activation, no queued weight gradient. Throws Bug that names stage, microbatch and step.
  void end_step();

  TensorList forward(int microbatch, TensorList inputs);
  /// dx and dw.
  TensorList backward(int microbatch, TensorList output_grads);
  /// dx; dw is queued.
  TensorList backward_input(int microbatch, TensorList output_grads);
  /// Drains what backward_input queued.
  void backward_weight(int microbatch);

  /// Loss of each microbatch of this step, on the last stage.
  const std::vector<LossReport>& losses() const { return losses_; }
  SavedActivations& saved(int microbatch);

 private:
  std::shared_ptr<StageModule> module_;
  int stage_index_;
  int num_stages_;
  std::vector<Microbatch> microbatches_;
  std::vector<SavedActivations> saved_;
  std::vector<LossReport> losses_;
  WeightGradQueue queue_;
};

}  // namespace ppctl
