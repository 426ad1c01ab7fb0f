#pragma once

#include "config/job_config.hpp"

namespace ppctl {

/// What the norm over all gradients makes of an optimizer step.
struct StepScale {
  bool skipped = false;  ///< parameters and moments stay as they are
  double factor = 1.0;   ///< on the gradients

  /// Whether the step is what it would be without a norm.
  bool plain() const { return !skipped && factor == 1.0; }
  friend bool operator==(const StepScale&, const StepScale&) = default;
};

/// min(1, clip_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_; no clipping where clip_norm is 0. A norm that
/// is not finite skips the step if optimizer.skip_nonfinite says so, and clips nothing otherwise, so that the fault
/// stays visible.
StepScale step_scale(double norm, const OptimizerConfig& config);

/// A norm and the step that it makes.
struct NormOutcome {
  double norm = 0.0;
  StepScale scale;
};

}  // namespace ppctl
