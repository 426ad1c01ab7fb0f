#include "train/step_scale.hpp"

#include <cmath>

namespace ppctl {

StepScale step_scale(double norm, const OptimizerConfig& config) {
  if (config.skip_nonfinite && !std::isfinite(norm)) return {.skipped = true};
  if (config.clip_norm <= 0.0) return {};
  const double factor = config.clip_norm / (norm + 1e-6);
  // NaN compares false.
  return {.factor = factor < 1.0 ? factor : 1.0};
}

}  // namespace ppctl
