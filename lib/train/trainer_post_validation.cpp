// Steps without a barrier: see PostValidation.
#include "train/trainer.hpp"

namespace ppctl {

void Trainer::end_step_optimistically(double lr, Nanoseconds start) {
  exchange_->start(part_);
  if (store_) store_->before_update(deadline());
  post_validation_->step(lr, deadline());
  unsettled_ = UnsettledStep{lr, milliseconds(monotonic_now() - start)};
  count_step();
  // Not in settle(): a rank that waits there for all others could wait for one that needs its next forward.
  if (store_ && std::exchange(saves_ready_, false)) store_->advance(deadline());
}

bool Trainer::settle() {
  if (!unsettled_) return true;
  const UnsettledStep step = *std::exchange(unsettled_, std::nullopt);
  const NormOutcome outcome = post_validation_->validate(deadline());
  model_->clear_grads();
  const StepReport report = combine(exchange_->finish(deadline()));
  stop_ = stop_ || report.stop_requested;
  saves_ready_ = report.save_ready;
  last_loss_ = report.loss;
  report_step(report, outcome, step.lr, step.step_ms);
  return outcome.scale.plain();
}

}  // namespace ppctl
