#pragma once

#include <mutex>
#include <vector>

#include "base/clock.hpp"
#include "model/expert_exchange.hpp"
#include "model/stage_module.hpp"
#include "runtime/timed_module.hpp"

namespace ppctl {

/// How long the parts of one mixture-of-experts layer take for one microbatch, in milliseconds.
struct TimedLayer {
  double attention_ms = 0;
  double experts_ms = 0;
  double attention_backward_ms = 0;
  double experts_backward_ms = 0;
};

/// What a rank computes on, one thing at a time, whichever of its threads asks: it sleeps. Notes when it was at work.
class TimedUnit {
 public:
  struct Span {
    Nanoseconds start = 0;
    Nanoseconds end = 0;
  };

  /// Any thread.
  void compute(double ms);
  /// What was done since the last call.
  std::vector<Span> take_spans();

 private:
  std::mutex mutex_;
  PreciseSleeper sleeper_;
  std::vector<Span> spans_;
};

/// A stage of mixture-of-experts layers that compute nothing: each sleeps for its attention, exchanges rows with the
/// other ranks, sleeps for its experts and exchanges again; the backward does that in reverse. The exchanges are real,
/// and so are the messages between stages.
class TimedMoeModule : public StageModule {
 public:
  /// `rows`: what each exchange carries. `output_elements`: float32 numbers that go to the next stage. Exchange and
  /// unit must outlive the module.
  TimedMoeModule(std::vector<TimedLayer> layers, TimedUnit& unit, ExpertExchange& exchange, at::Tensor rows,
                 std::int64_t output_elements, bool is_last);

  TensorList forward(const Microbatch& microbatch, TensorList inputs, SavedActivations& saved,
                     LossReport* loss) override;
  TensorList backward(const Microbatch& microbatch, TensorList output_grads, SavedActivations& saved,
                      WeightGradQueue& queue) override;
  std::vector<ParameterGroup*> parameter_groups() override { return {}; }

 private:
  void exchange(ExpertTransfer::Operation operation, bool is_last_layer);

  std::vector<TimedLayer> layers_;
  TimedUnit& unit_;
  ExpertExchange& exchange_;
  at::Tensor rows_;
  at::Tensor output_;
  bool is_last_;
};

}  // namespace ppctl
