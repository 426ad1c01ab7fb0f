#pragma once

#include <vector>

#include "base/clock.hpp"
#include "model/stage_module.hpp"

namespace ppctl {

/// How long a stage takes for one microbatch, in milliseconds, and what it keeps of it.
struct StageTimes {
  double forward_ms = 0;
  double dx_ms = 0;
  double dw_ms = 0;
  std::int64_t activation_bytes = 0;  ///< from forward to backward; a swap may move them
};

/// Sleeps until a point of monotonic_now(), to a few hundredths of a millisecond. The thread leaves the core to others
/// until shortly before; how long before it learns from how late the kernel woke it, since that differs tenfold between
/// machines. So it also holds when more threads sleep than there are cores, as long as they wake at different times.
/// For one thread at a time.
class PreciseSleeper {
 public:
  void sleep_until(Nanoseconds until);
  void sleep_ms(double ms) { sleep_until(monotonic_now() + static_cast<Nanoseconds>(ms * 1e6)); }

 private:
  Nanoseconds lateness_ = 50'000;  ///< of wake-ups, as expected
};

/// A stage that computes nothing and takes a given time: bubbles of many ranks become measurable on few cores. It
/// passes one small tensor on, so that executor and transport do all that they would do for a model. The loss of every
/// microbatch is 0, over one label.
class TimedModule : public StageModule {
 public:
  /// `elements`: float32 numbers in the tensor that it passes on.
  explicit TimedModule(StageTimes times, bool is_last, std::int64_t elements = 16);

  TensorList forward(const Microbatch& microbatch, TensorList inputs, SavedActivations& saved,
                     LossReport* loss) override;
  TensorList backward(const Microbatch& microbatch, TensorList output_grads, SavedActivations& saved,
                      WeightGradQueue& queue) override;
  std::vector<ParameterGroup*> parameter_groups() override { return {}; }

 private:
  StageTimes times_;
  bool is_last_;
  at::Tensor tensor_;
  PreciseSleeper sleeper_;
};

}  // namespace ppctl
