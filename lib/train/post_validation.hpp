#pragma once

#include <vector>

#include "config/job_config.hpp"
#include "runtime/tensor_router.hpp"
#include "train/grad_norm.hpp"
#include "train/optimizer.hpp"
#include "train/step_scale.hpp"

namespace ppctl {

/// Optimizer steps without a barrier (Qi et al., Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 4). The
/// global norm that clipping needs would make every rank wait for the last one. Instead the state, the squared norms of
/// the parameters, goes from the first rank to the last, each adding its own; a rank updates its parameters as soon as
/// it has the part of the ranks before it, unless that part alone asks for another step than the plain one. The whole
/// state comes back while the next step warms up, from the last rank to each other one; where it asks for another step
/// than was taken, the rank goes back to the parameters and moments that it kept a copy of, and takes the right one. So
/// the bits are those of a step that knows the norm first.
///
/// Keeps a copy of what the optimizer changes (12 bytes a parameter in float32) where a step can turn out wrong.
/// Gradients must stay as they are between step() and validate(). One thread.
class PostValidation {
 public:
  /// `norm`: over the ranks of this rank's pipeline. `optimizer` and the transport must outlive the object.
  PostValidation(const OptimizerConfig& config, GradNorm norm, AdamW& optimizer, PipelineRanks ranks);

  /// Takes an optimizer step that validate() may still amend. Waits for the ranks before this one. COLLECTIVE over the
  /// pipeline, as validate() is.
  void step(double lr, Deadline deadline);

  /// Waits for the whole state and makes the step what it should be. The same outcome on every rank; where it is plain,
  /// every rank had taken the right step. REQUIRES: a step since the last validation.
  NormOutcome validate(Deadline deadline);

 private:
  enum class Taken { kPlain, kNone, kFinal };

  bool is_last() const { return ranks_.rank.value + 1 == static_cast<int>(ranks_.world_ranks.size()); }
  void receive_partial(Deadline deadline);
  void pass_on();
  RequestPtr send_to(int pipeline_rank, std::int64_t tag);
  RequestPtr receive_from(int pipeline_rank, std::int64_t tag, std::vector<double>& state);
  void take(StepScale scale);
  void keep_copy();
  void go_back();

  OptimizerConfig config_;
  GradNorm norm_;
  AdamW& optimizer_;
  PipelineRanks ranks_;

  std::vector<double> partial_;  ///< slots of this rank and those before it; zero for the others
  std::vector<double> whole_;
  std::vector<RequestPtr> sends_;
  RequestPtr whole_arrives_;

  bool pending_ = false;
  Taken taken_ = Taken::kNone;
  double lr_ = 0.0;
  std::vector<at::Tensor> copies_;  ///< of AdamW::buffers(), before the step
};

}  // namespace ppctl
