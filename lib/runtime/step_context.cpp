#include "runtime/step_context.hpp"

#include "base/error.hpp"
#include "runtime/executor.hpp"
#include "schedule/text.hpp"

namespace ppctl {

PipelineRank StepContext::rank() const { return executor_.rank(); }

std::int64_t StepContext::step_number() const { return executor_.step_number_; }

const std::string& StepContext::status() const { return executor_.status_; }

PipelineStage& StepContext::stage() const { return executor_.stage_of(step_); }

const Microbatch& StepContext::microbatch() const {
  PPCTL_CHECK(step_.microbatch().valid(), "a {} step has no microbatch", to_string(step_.type()));
  return executor_.microbatches_[static_cast<std::size_t>(step_.microbatch().value)];
}

std::span<const MetaStep> StepContext::sub_steps() const {
  if (!is_composite(step_.type())) return {};
  return executor_.program_->rank.sub_steps_of(step_);
}

void StepContext::run_default() { (executor_.*Executor::default_handler(step_.type()))(step_); }

void StepContext::run(MetaStep step) { executor_.run_step(step); }

void StepContext::run_pair(const PairRunner& run_both) { executor_.run_pair(step_, run_both); }

TensorList StepContext::take_inputs() {
  switch (step_.type()) {
    case MetaStepType::FORWARD:
    case MetaStepType::BACKWARD:
    case MetaStepType::BACKWARD_INPUT:
      return executor_.wait_for_inputs(step_);
    case MetaStepType::SEND_FORWARD:
    case MetaStepType::SEND_BACKWARD:
      return executor_.router_.take_outgoing(step_);
    default:
      throw_error("a {} step takes no tensors", to_string(step_.type()));
  }
}

void StepContext::give_outputs(TensorList tensors) {
  switch (step_.type()) {
    case MetaStepType::FORWARD:
    case MetaStepType::BACKWARD:
    case MetaStepType::BACKWARD_INPUT:
      return executor_.give_outputs(step_, std::move(tensors));
    case MetaStepType::RECV_FORWARD:
    case MetaStepType::RECV_BACKWARD:
      return executor_.router_.give_incoming(step_, std::move(tensors));
    default:
      throw_error("a {} step makes no tensors", to_string(step_.type()));
  }
}

}  // namespace ppctl
