#include "train/lr_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.hpp"

namespace ppctl {
namespace {

/// How far `step` is on the way from `begin` to `end`, 0 .. 1.
double progress(std::int64_t step, std::int64_t begin, std::int64_t end) {
  if (end <= begin) return step < end ? 0.0 : 1.0;
  return std::clamp(static_cast<double>(step - begin) / static_cast<double>(end - begin), 0.0, 1.0);
}

}  // namespace

LrSchedule::LrSchedule(const LrScheduleConfig& config, double lr, std::int64_t job_steps)
    : config_(config), lr_(lr), total_steps_(config.total_steps) {
  if (total_steps_ == 0) {
    const std::int64_t decay = config.kind == "wsd" ? config.decay_steps : 0;
    total_steps_ = std::max(job_steps, config.warmup_steps + decay);
  }
  const bool known =
      config.kind == "constant" || config.kind == "linear" || config.kind == "cosine" || config.kind == "wsd";
  if (!known) throw_error("lr_schedule.kind is '{}'; it must be constant, linear, cosine or wsd", config.kind);
  if (config.kind != "constant" && config.warmup_steps > total_steps_) {
    throw_error("lr_schedule.warmup_steps is {}, more than the {} steps of the schedule", config.warmup_steps,
                total_steps_);
  }
  if (config.kind == "wsd" && config.warmup_steps + config.decay_steps > total_steps_) {
    throw_error("lr_schedule: warmup_steps {} and decay_steps {} are more than the {} steps of the schedule",
                config.warmup_steps, config.decay_steps, total_steps_);
  }
}

double LrSchedule::shape(std::int64_t step) const {
  const double final_ratio = config_.final_ratio;
  const double fall = 1.0 - final_ratio;
  if (config_.kind == "linear") return 1.0 - fall * progress(step, config_.warmup_steps, total_steps_);
  if (config_.kind == "cosine") {
    return final_ratio +
           fall * 0.5 * (1.0 + std::cos(std::numbers::pi * progress(step, config_.warmup_steps, total_steps_)));
  }
  if (config_.kind == "wsd") return 1.0 - fall * progress(step, total_steps_ - config_.decay_steps, total_steps_);
  return 1.0;
}

double LrSchedule::at(std::int64_t step) const {
  const double warm_up =
      config_.warmup_steps > 0 ? std::min(1.0, static_cast<double>(step + 1) / config_.warmup_steps) : 1.0;
  return lr_ * warm_up * shape(step);
}

}  // namespace ppctl
