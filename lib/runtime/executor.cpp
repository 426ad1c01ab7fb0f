#include "runtime/executor.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "schedule/text.hpp"

namespace ppctl {

Executor::Executor(const Schedule& schedule, PipelineRanks ranks, std::vector<std::shared_ptr<PipelineStage>> stages,
                   ExecutorOptions options)
    : placement_(schedule.placement),
      num_microbatches_(schedule.num_microbatches),
      ranks_(std::move(ranks)),
      stages_(std::move(stages)),
      options_(options),
      training_(whole_program(schedule, ranks_.rank)),
      forward_only_(forward_program(schedule, ranks_.rank)),
      router_(schedule, ranks_, options.tag_space) {
  if (options_.validates) optimistic_ = optimistic_part(schedule, ranks_.rank);
  PPCTL_CHECK_EQ(static_cast<int>(stages_.size()), placement_.chunks());
  PPCTL_CHECK_EQ(static_cast<int>(ranks_.world_ranks.size()), placement_.pp());
  for (int chunk = 0; chunk < placement_.chunks(); ++chunk) {
    const PipelineStage& stage = *stages_[static_cast<std::size_t>(chunk)];
    PPCTL_CHECK_EQ(stage.stage(), placement_.stage_of(ranks_.rank, chunk));
    PPCTL_CHECK_EQ(stage.num_stages(), placement_.num_stages());
  }
}

Executor::~Executor() = default;

void Executor::register_custom_function(MetaStepType type, CustomFunction function) {
  custom_[static_cast<std::size_t>(type)] = std::move(function);
  has_custom_transfers_ = false;
  for (int i = 0; i < kNumMetaStepTypes; ++i) {
    has_custom_transfers_ |= is_p2p(static_cast<MetaStepType>(i)) && custom_[static_cast<std::size_t>(i)] != nullptr;
  }
}

const StepResult& Executor::run(std::vector<Microbatch> microbatches) {
  return run_program(training_, std::move(microbatches));
}

const StepResult& Executor::run(std::vector<Microbatch> microbatches, const std::function<bool()>& validate) {
  PPCTL_CHECK(optimistic_.has_value(), "an executor that was not made to validate");
  return run_program(training_, std::move(microbatches), validate);
}

const StepResult& Executor::run_forward(std::vector<Microbatch> microbatches) {
  for (Microbatch& microbatch : microbatches) microbatch.training = false;
  return run_program(forward_only_, std::move(microbatches));
}

const StepResult& Executor::run_program(const RankProgram& program, std::vector<Microbatch> microbatches,
                                        const std::function<bool()>& validate) {
  PPCTL_CHECK_EQ(static_cast<int>(microbatches.size()), num_microbatches_);
  microbatches_ = std::move(microbatches);
  step_number_ = microbatches_[0].step;
  status_ = fmt::format("step {}, ", step_number_);
  status_prefix_ = status_.size();
  result_.reset(microbatches_.size());
  try {
    run_steps(program, validate);
  } catch (const Bug& bug) {
    throw Bug(fmt::format("{}: {}", where(), bug.what()));
  } catch (const c10::Error& error) {
    throw Error(fmt::format("{}: {}", where(), error.what_without_backtrace()));
  } catch (const std::exception& error) {
    throw Error(fmt::format("{}: {}", where(), error.what()));
  }
  return result_;
}

void Executor::run_steps(const RankProgram& program, const std::function<bool()>& validate) {
  begin_steps();
  result_.start = monotonic_now();
  run_from(program, validate ? run_optimistic_part(validate) : 0);
  result_.end = monotonic_now();
  show_status("end of the step");
  router_.finish_sends(Deadline::after_seconds(options_.timeout_s), status_);
  if (hooks_.preprocess != nullptr) hooks_.preprocess->end_step(status_);
  for (const auto& stage : stages_) stage->end_step();
  collect_losses();
  // Between steps a rank holds parameters and optimizer state alone.
  for (Microbatch& microbatch : microbatches_) {
    microbatch.args.clear();
    microbatch.kwargs.clear();
  }
}

void Executor::begin_steps() {
  alive_chunks_ = 0;
  in_pair_ = false;
  early_.begin({});
  router_.begin_step();
  for (const auto& stage : stages_) stage->begin_step(microbatches_);
  if (hooks_.preprocess != nullptr) hooks_.preprocess->begin_step(microbatches_);
}

void Executor::run_from(const RankProgram& program, std::size_t first) {
  program_ = &program;
  for (step_index_ = first; step_index_ < program.rank.steps.size(); ++step_index_) {
    if (early_.has_started(step_index_)) continue;
    show_status(program.texts[step_index_]);
    run_step(program.rank.steps[step_index_]);
  }
  early_.begin({});
}

std::size_t Executor::run_optimistic_part(const std::function<bool()>& validate) {
  run_from(optimistic_->program, 0);
  show_status("validation of the step before");
  if (!validate()) {
    abandon_optimistic_part();
    return 0;
  }
  for (const MetaStep recv : optimistic_->posted_later) run_step(recv);
  return optimistic_->num_steps;
}

// Every rank runs its optimistic part to its end first, so what is left over on the edges is known from the schedule.
void Executor::abandon_optimistic_part() {
  const Deadline deadline = Deadline::after_seconds(options_.timeout_s);
  for (const MetaStep recv : optimistic_->left_over) run_step(recv);
  for (const MetaStep recv : optimistic_->left_over) {
    WaitSpan wait;
    router_.take_inputs(MetaStep(MetaStepType::FORWARD, recv.stage(), recv.microbatch()), deadline, status_, &wait);
  }
  router_.finish_sends(deadline, status_);
  const Nanoseconds start = result_.start;
  result_.reset(microbatches_.size());
  result_.start = start;
  begin_steps();
}

void Executor::show_status(std::string_view step_text) {
  status_.resize(status_prefix_);
  status_ += step_text;
  ranks_.transport->set_status(status_);
}

std::string Executor::where() const { return fmt::format("rank {}, {}", ranks_.rank, status_); }

void Executor::run_step(MetaStep step) {
  const auto& custom = custom_[static_cast<std::size_t>(step.type())];
  if (custom) {
    StepContext context(*this, step);
    custom(step, context);
  } else {
    (this->*default_handler(step.type()))(step);
  }
}

Executor::Handler Executor::default_handler(MetaStepType type) {
  switch (type) {
    case MetaStepType::FORWARD:
      return &Executor::run_forward_step;
    case MetaStepType::BACKWARD:
    case MetaStepType::BACKWARD_INPUT:
      return &Executor::run_backward_step;
    case MetaStepType::BACKWARD_WEIGHT:
      return &Executor::run_backward_weight;
    case MetaStepType::SEND_FORWARD:
    case MetaStepType::SEND_BACKWARD:
      return &Executor::run_send;
    case MetaStepType::RECV_FORWARD:
    case MetaStepType::RECV_BACKWARD:
      return &Executor::run_recv;
    case MetaStepType::BATCH_SEND_RECV:
      return &Executor::run_batch;
    case MetaStepType::OVERLAP_B_F:
      return &Executor::run_pair_in_turns;
    case MetaStepType::UNSHARD:
    case MetaStepType::RESHARD:
    case MetaStepType::REDUCE_GRAD:
      return &Executor::run_shard;
    case MetaStepType::LAUNCH_OFFLOAD:
    case MetaStepType::WAIT_OFFLOAD:
    case MetaStepType::LAUNCH_LOAD:
    case MetaStepType::WAIT_LOAD:
      return &Executor::run_swap;
    default:
      return &Executor::run_preprocess;
  }
}

PipelineStage& Executor::stage_of(MetaStep step) const {
  return *stages_[static_cast<std::size_t>(router_.chunk_of(step.stage()))];
}

TensorList Executor::wait_for_inputs(MetaStep step) {
  WaitSpan wait;
  TensorList inputs = router_.take_inputs(step, Deadline::after_seconds(options_.timeout_s), status_, &wait);
  note_wait(step, wait);
  return inputs;
}

void Executor::note_wait(MetaStep step, const WaitSpan& wait) {
  if (wait.end == 0) return;
  result_.times[static_cast<std::size_t>(step.microbatch().value)].wait += wait.end - wait.start;
  record(EventKind::kWait, step, wait.start, wait.end, wait.peer);
}

void Executor::await_parameters(MetaStep step) {
  if (hooks_.shard == nullptr) return;
  const bool makes_weight_grads = step.type() == MetaStepType::BACKWARD || step.type() == MetaStepType::BACKWARD_WEIGHT;
  const std::lock_guard lock(pair_mutex_);
  hooks_.shard->before_compute(step.stage(), makes_weight_grads);
}

void Executor::note_compute(EventKind kind, MetaStep step, Nanoseconds start, Nanoseconds end) {
  if (!in_pair_) result_.busy += end - start;
  const bool overlapped = in_pair_ && kind == EventKind::kBackward;
  record(overlapped ? EventKind::kOverlapped : kind, step, start, end);
}

void Executor::run_forward_step(MetaStep step) {
  PipelineStage& stage = stage_of(step);
  const int microbatch = step.microbatch().value;
  TensorList inputs = wait_for_inputs(step);
  if (is_fed(step)) {
    const std::size_t before = inputs.size();
    WaitSpan wait;
    for (at::Tensor& feature : hooks_.preprocess->take_features(step, status_, &wait)) {
      inputs.push_back(std::move(feature));
    }
    note_wait(step, wait);
    num_features_ = inputs.size() - before;
  }
  const Nanoseconds start = begin_compute(step);
  TensorList outputs = stage.forward(microbatch, std::move(inputs));
  const Nanoseconds end = monotonic_now();
  result_.times[static_cast<std::size_t>(microbatch)].forward += end - start;
  note_compute(EventKind::kForward, step, start, end);
  give_outputs(step, std::move(outputs));
}

void Executor::run_backward_step(MetaStep step) {
  PipelineStage& stage = stage_of(step);
  const int microbatch = step.microbatch().value;
  const bool whole = step.type() == MetaStepType::BACKWARD;
  TensorList output_grads = wait_for_inputs(step);
  const Nanoseconds start = begin_compute(step);
  TensorList input_grads = whole ? stage.backward(microbatch, std::move(output_grads))
                                 : stage.backward_input(microbatch, std::move(output_grads));
  const Nanoseconds end = monotonic_now();
  result_.times[static_cast<std::size_t>(microbatch)].backward += end - start;
  note_compute(whole ? EventKind::kBackward : EventKind::kBackwardInput, step, start, end);
  if (is_fed(step)) give_feature_grads(step, input_grads);
  give_outputs(step, std::move(input_grads));
}

void Executor::run_backward_weight(MetaStep step) {
  const Nanoseconds start = begin_compute(step);
  stage_of(step).backward_weight(step.microbatch().value);
  const Nanoseconds end = monotonic_now();
  result_.times[static_cast<std::size_t>(step.microbatch().value)].backward += end - start;
  note_compute(EventKind::kBackwardWeight, step, start, end);
  note_alive(-1);
}

void Executor::give_outputs(MetaStep step, TensorList tensors) {
  const bool forward = step.type() == MetaStepType::FORWARD;
  if (forward) note_alive(+1);
  if (step.type() == MetaStepType::BACKWARD) note_alive(-1);
  if (forward && step.stage().value == placement_.num_stages() - 1) {
    result_.outputs[static_cast<std::size_t>(step.microbatch().value)] = std::move(tensors);
  } else {
    router_.give_outputs(step, std::move(tensors));
  }
}

void Executor::run_send(MetaStep step) {
  const Nanoseconds start = options_.record_spans ? monotonic_now() : 0;
  router_.send(step);
  if (options_.record_spans) record(EventKind::kSend, step, start, monotonic_now(), step.peer());
}

void Executor::run_recv(MetaStep step) { router_.post(step); }

void Executor::run_batch(MetaStep step) {
  if (has_custom_transfers_) return run_sub_steps(step);
  const auto sub_steps = program_->rank.sub_steps_of(step);
  const Nanoseconds start = options_.record_spans ? monotonic_now() : 0;
  router_.batch(sub_steps);
  if (!options_.record_spans) return;
  const Nanoseconds end = monotonic_now();
  for (const MetaStep sub_step : sub_steps) {
    const MetaStepType type = sub_step.type();
    const bool sends = type == MetaStepType::SEND_FORWARD || type == MetaStepType::SEND_BACKWARD;
    if (sends) record(EventKind::kSend, sub_step, start, end, sub_step.peer());
  }
}

void Executor::run_sub_steps(MetaStep step) {
  for (const MetaStep sub_step : program_->rank.sub_steps_of(step)) run_step(sub_step);
}

void Executor::refuse(MetaStep step, const char* what) const {
  throw_error("a step of kind {} needs {}, which this run does not have", to_string(step.type()), what);
}

void Executor::run_shard(MetaStep step) {
  if (hooks_.shard == nullptr) refuse(step, "sharded parameters");
  switch (step.type()) {
    case MetaStepType::UNSHARD:
      return hooks_.shard->unshard(step.stage());
    case MetaStepType::RESHARD:
      return hooks_.shard->reshard(step.stage());
    default:
      return hooks_.shard->reduce_grad(step.stage());
  }
}

void Executor::run_swap(MetaStep step) {
  if (hooks_.swap == nullptr) refuse(step, "an activation swap");
  StepContext context(*this, step);
  switch (step.type()) {
    case MetaStepType::LAUNCH_OFFLOAD:
      return hooks_.swap->launch_offload(context);
    case MetaStepType::WAIT_OFFLOAD:
      return hooks_.swap->wait_offload(context);
    case MetaStepType::LAUNCH_LOAD:
      return hooks_.swap->launch_load(context);
    default:
      return hooks_.swap->wait_load(context);
  }
}

bool Executor::is_fed(MetaStep step) const {
  return hooks_.preprocess != nullptr && hooks_.preprocess->feeds(step.stage());
}

void Executor::give_feature_grads(MetaStep backward, TensorList& input_grads) {
  const std::size_t count = std::min(num_features_.load(), input_grads.size());
  const auto first = input_grads.end() - static_cast<std::ptrdiff_t>(count);
  hooks_.preprocess->give_feature_grads(backward, {first, input_grads.end()});
  input_grads.erase(first, input_grads.end());
}

void Executor::run_preprocess(MetaStep step) {
  if (hooks_.preprocess == nullptr) refuse(step, "a module to preprocess with");
  StepContext context(*this, step);
  WaitSpan wait;
  hooks_.preprocess->await(step, status_, &wait);
  note_wait(step, wait);
  const Nanoseconds start = monotonic_now();
  hooks_.preprocess->run(step, context);
  const Nanoseconds end = monotonic_now();
  MicrobatchTimes& times = result_.times[static_cast<std::size_t>(step.microbatch().value)];
  switch (step.type()) {
    case MetaStepType::LOAD_DATA:
      return note_compute(EventKind::kLoadData, step, start, end);
    case MetaStepType::PREPROCESS_FORWARD:
      times.forward += end - start;
      return note_compute(EventKind::kEncoderForward, step, start, end);
    case MetaStepType::PREPROCESS_BACKWARD:
      times.backward += end - start;
      return note_compute(EventKind::kEncoderBackward, step, start, end);
    case MetaStepType::PREPROCESS_BACKWARD_INPUT:
      times.backward += end - start;
      return note_compute(EventKind::kEncoderBackwardInput, step, start, end);
    case MetaStepType::PREPROCESS_BACKWARD_WEIGHT:
      times.backward += end - start;
      return note_compute(EventKind::kEncoderBackwardWeight, step, start, end);
    default:
      return;
  }
}

void Executor::record(EventKind kind, MetaStep step, Nanoseconds start, Nanoseconds end, PipelineRank peer) {
  if (!options_.record_spans) return;
  const std::uint8_t lane = in_pair_ && step.type() == MetaStepType::FORWARD ? 1 : 0;
  const std::lock_guard lock(pair_mutex_);
  result_.spans.push_back({start, end, kind, lane, step.stage(), step.microbatch(), peer});
}

void Executor::note_alive(int change) {
  const std::lock_guard lock(pair_mutex_);
  alive_chunks_ += change;
  result_.peak_chunks = std::max(result_.peak_chunks, alive_chunks_);
}

void Executor::collect_losses() {
  for (const auto& stage : stages_) {
    if (!stage->is_last()) continue;
    for (int microbatch = 0; microbatch < num_microbatches_; ++microbatch) {
      const PipelineRank owner = placement_.rank_of(stage->stage(), MicrobatchId(microbatch), num_microbatches_);
      if (owner != ranks_.rank) continue;
      result_.losses.push_back({microbatch, stage->losses()[static_cast<std::size_t>(microbatch)]});
    }
  }
}

}  // namespace ppctl
