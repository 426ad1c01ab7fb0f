#pragma once

#include <cstdint>

#include "config/job_config.hpp"

namespace ppctl {

/// The learning rate of each step: lr · min(1, (step + 1) / warmup_steps) · shape. From the end of the warm-up (step W)
/// to the end of training (T steps), with t = (step − W) / (T − W) and f = final_ratio:
///   constant  1
///   linear    1 − (1 − f) · t
///   cosine    f + (1 − f) · (1 + cos πt) / 2
///   wsd       1 until the last D = decay_steps steps, then 1 − (1 − f) · (step − (T − D)) / D
/// After T the shape stays at f.
class LrSchedule {
 public:
  /// `job_steps` is T where the configuration leaves it open, but T leaves room for warm-up and decay: a job that is
  /// cut short ends within them. Throws Error where the kind is unknown or the numbers do not fit.
  LrSchedule(const LrScheduleConfig& config, double lr, std::int64_t job_steps);
  /// `step` counts from 0.
  double at(std::int64_t step) const;

 private:
  double shape(std::int64_t step) const;

  LrScheduleConfig config_;
  double lr_;
  std::int64_t total_steps_;
};

}  // namespace ppctl
