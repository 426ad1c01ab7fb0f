#pragma once

#include <cstdint>
#include <string>

namespace ppctl {

/// What logs say of one microbatch of a step.
struct MicrobatchRecord {
  std::int64_t step = 0;
  int microbatch = 0;     ///< in the whole step, over replicas and accumulated batches
  double loss = 0.0;      ///< mean over its own labelled tokens (0 where it has none), and the auxiliary loss
  double aux_loss = 0.0;  ///< the part of `loss` that balances experts, its coefficient included
  std::int64_t num_labels = 0;
  double forward_ms = 0.0;   ///< computing, over all stages
  double backward_ms = 0.0;  ///< dx and dw, over all stages
  double wait_ms = 0.0;      ///< ranks waited for its tensors, over all ranks
};

/// What logs say of one step.
struct StepRecord {
  std::int64_t step = 0;
  std::int64_t epoch = 0;  ///< of the step's last sample
  double loss = 0.0;       ///< mean over all labelled tokens of the step, and the auxiliary loss
  double aux_loss = 0.0;   ///< the part of `loss` that balances experts: mean over microbatches
  std::int64_t num_labels = 0;
  double grad_norm = 0.0;  ///< before clipping
  double lr = 0.0;
  std::int64_t tokens = 0;     ///< trained on so far, this step included
  double step_ms = 0.0;        ///< wall time on rank 0
  double save_stall_ms = 0.0;  ///< wall time for which rank 0 waited for checkpoints, since the last record
  double tokens_per_s = 0.0;   ///< of this step
  double bubble = 0.0;         ///< share of the ranks' time between a step's first and last compute that is not compute
  double memory_mib = 0.0;     ///< resident set of the largest rank
  double total_memory_mib = 0.0;  ///< resident sets of all ranks, shared pages counted on each
  // where log.memory is on
  double tensor_mib = 0.0;        ///< tensors that live between steps, of the largest rank
  double tensor_peak_mib = 0.0;   ///< most tensors at once within the step, of the largest rank
  double planned_peak_mib = 0.0;  ///< what the plan says of that
};

/// What logs say of one evaluation on the held-out part.
struct EvalRecord {
  std::int64_t step = 0;  ///< steps that were trained before
  double loss = 0.0;
  std::int64_t num_labels = 0;
  double eval_ms = 0.0;
};

/// Who wants to know how training goes. Called on rank 0 alone, by the training thread. What it throws ends the run.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  virtual void on_microbatch(const MicrobatchRecord&) {}
  virtual void on_step(const StepRecord&) {}
  virtual void on_eval(const EvalRecord&) {}
  /// A line for a person: an epoch begins, a checkpoint was written.
  virtual void on_message(const std::string&) {}
};

}  // namespace ppctl
