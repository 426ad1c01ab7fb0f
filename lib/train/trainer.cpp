#include "train/trainer.hpp"

#include <fmt/ranges.h>

#include <filesystem>

#include "base/error.hpp"
#include "simulate/memory_report.hpp"
#include "storage/step_folders.hpp"
#include "train/agreement.hpp"
#include "train/checkpoint_weights.hpp"
#include "train/sampler.hpp"

namespace ppctl {
namespace {

/// Adds what a run of the executor measured to this rank's part of the step. `first`: the batch's first microbatch.
void add_result(const StepResult& result, std::size_t first, StepPart& part) {
  for (std::size_t i = 0; i < result.times.size(); ++i) {
    part.microbatches[first + i].times = result.times[i];
  }
  part.busy_ms += milliseconds(result.busy);
  for (const MicrobatchLoss& loss : result.losses) {
    MicrobatchPart& microbatch = part.microbatches[first + static_cast<std::size_t>(loss.microbatch)];
    microbatch.has_loss = true;
    microbatch.loss = loss.report;
  }
  part.span_ms += milliseconds(result.end - result.start);
}

}  // namespace

void Trainer::say(const std::string& text) const {
  for (const auto& observer : observers_) observer->on_message(text);
}

TrainResult Trainer::run() {
  announce();
  TrainResult result;
  const std::int64_t total = total_steps();
  if (job_.eval.every > 0) evaluate();
  while (state_.step < total && !stop_) {
    train_step();
    const bool last = state_.step == total;
    if (job_.eval.every > 0 && (state_.step % job_.eval.every == 0 || last) && !stop_) evaluate();
    if (store_ && (last || stop_ || (job_.checkpoint.every > 0 && state_.step % job_.checkpoint.every == 0))) save();
  }
  settle();
  if (store_) store_->finish(deadline());
  report_shards();
  report_swap(result);
  result.stopped = stop_ && state_.step < total;
  if (memory_) {
    result.planned_memory = memory_->planned();
    result.measured_memory = memory_->measured();
    say(memory_->summary());
  }
  if (!result.stopped) finish(result);
  result.state = state_;
  result.last_loss = last_loss_;
  result.unigram_entropy = dataset_.unigram_entropy;
  return result;
}

void Trainer::announce() const {
  say(fmt::format("{}: {} layers over {} stages as {}, {} microbatches of {} samples, {}, on {}", job_.name,
                  spec_.num_layers, schedule_.num_stages(), fmt::join(plan_.layer_counts, "+"),
                  shape_.num_microbatches * shape_.accumulate, shape_.microbatch_size, schedule_.name,
                  mesh_.to_text()));
  say(dataset_.description);
  if (!resumed_) return;
  say(fmt::format("resumed after step {} of {}", state_.step, total_steps()));
  for (const std::string& note : resumed_->notes) say(fmt::format("{}: {}", resumed_->folder, note));
}

void Trainer::train_step() {
  const Nanoseconds start = monotonic_now();
  note_epoch();
  if (memory_) memory_->begin_step();
  const double lr = lr_schedule_->at(state_.step);
  const std::int64_t num_labels = loader_->num_labels(state_.step);
  if (!unsettled_) model_->clear_grads();
  part_ = StepPart{};
  run_batches(part_, num_labels > 0 ? 1.0 / static_cast<double>(num_labels) : 0.0);
  // Gradients are summed over the shards' ranks by the schedule; then over replicas, copies of a stage and uses.
  grad_replicas_->sum_grads(deadline());
  expert_replicas_->sum_grads(deadline());
  stage_replicas_->sum_grads(deadline());
  tied_->sum_grads(deadline());
  part_.save_ready = !store_ || store_->ready();
  part_.memory_mib = resident_mib();
  if (memory_) {
    const std::size_t encoder_bytes = encoder_ ? encoder_->receive_buffer_bytes() : 0;
    part_.memory = memory_->part(executor_->receive_buffer_bytes() + encoder_bytes);
  }
  part_.stop_requested = options_.stop_requested && options_.stop_requested();
  post_validation_ ? end_step_optimistically(lr, start) : end_step(lr, start);
}

void Trainer::end_step(double lr, Nanoseconds start) {
  part_.squared_norms.assign(norm_->num_slots(), 0.0);
  norm_->local(part_.squared_norms);
  const StepReport report = combine(exchange_->gather(part_, deadline()));
  NormOutcome outcome;
  outcome.norm = norm_->combine(exchange_->norms(), exchange_->stride());
  outcome.scale = step_scale(outcome.norm, job_.optimizer);
  if (store_) store_->before_update(deadline());
  if (!outcome.scale.skipped) {
    norm_->scale(outcome.scale.factor);
    optimizer_->step(lr);
  }
  if (fsdp_) model_->clear_grads();  // between steps a rank holds its shards alone
  stop_ = report.stop_requested;
  last_loss_ = report.loss;
  count_step();
  report_step(report, outcome, lr, milliseconds(monotonic_now() - start));
  if (store_ && report.save_ready) store_->advance(deadline());
}

StepReport Trainer::combine(const std::vector<StepPart>& parts) {
  for (std::size_t rank = 0; memory_ && rank < parts.size(); ++rank) memory_->note(rank, parts[rank].memory);
  return combine_parts(parts, mesh_, shape_);
}

void Trainer::count_step() {
  state_.samples += shape_.samples_per_step();
  state_.tokens += shape_.samples_per_step() * loader_->sequence_length();
  ++state_.step;
}

void Trainer::run_batches(StepPart& part, double loss_scale) {
  const auto per_batch = static_cast<std::size_t>(shape_.num_microbatches);
  part.microbatches.assign(per_batch * static_cast<std::size_t>(shape_.accumulate), {});
  for (int batch = 0; batch < shape_.accumulate; ++batch) {
    if (fsdp_) fsdp_->begin_batch(/*is_last=*/batch + 1 == shape_.accumulate);
    if (encoder_) encoder_->begin_batch(/*is_last=*/batch + 1 == shape_.accumulate);
    auto microbatches = loader_->load(state_.step, batch, /*training=*/true, loss_scale);
    const StepResult& result = unsettled_ ? executor_->run(std::move(microbatches), [this] { return settle(); })
                                          : executor_->run(std::move(microbatches));
    add_result(result, per_batch * static_cast<std::size_t>(batch), part);
  }
}

void Trainer::report_step(const StepReport& report, const NormOutcome& outcome, double lr, double step_ms) {
  if (observers_.empty()) return;
  StepRecord record;
  record.step = state_.step - 1;
  record.epoch = loader_->order().epoch_of(state_.samples - 1);
  record.loss = report.loss;
  record.aux_loss = report.aux_loss;
  record.num_labels = report.num_labels;
  record.grad_norm = outcome.norm;
  record.lr = lr;
  record.tokens = state_.tokens;
  record.step_ms = step_ms;
  record.tokens_per_s = static_cast<double>(shape_.samples_per_step() * loader_->sequence_length()) / step_ms * 1e3;
  record.save_stall_ms = store_ ? store_->take_stall_ms() : 0.0;
  record.bubble = report.bubble;
  record.memory_mib = report.memory_mib;
  record.total_memory_mib = report.total_memory_mib;
  record.tensor_mib = report.tensor_mib;
  record.tensor_peak_mib = report.tensor_peak_mib;
  if (memory_) record.planned_peak_mib = memory_->planned_peak_mib();
  for (const auto& observer : observers_) {
    for (MicrobatchRecord microbatch : report.microbatches) {
      microbatch.step = record.step;
      observer->on_microbatch(microbatch);
    }
    observer->on_step(record);
  }
  if (outcome.scale.skipped) say(fmt::format("step {}: skipped, its gradients are not finite", record.step));
}

void Trainer::note_epoch() {
  const std::int64_t first = state_.samples;
  const std::int64_t last = first + shape_.samples_per_step() - 1;
  const SampleOrder& order = loader_->order();
  const std::int64_t before = first == 0 ? 0 : order.epoch_of(first - 1);
  if (order.epoch_of(last) > before) {
    say(fmt::format("step {}: the data is at its end, epoch {} begins", state_.step, order.epoch_of(last)));
  }
}

void Trainer::evaluate() {
  settle();
  const Nanoseconds start = monotonic_now();
  const std::int64_t whole_batches = dataset_.evaluation->num_samples() / shape_.samples_per_batch();
  const std::int64_t batches = std::min<std::int64_t>(job_.eval.batches, whole_batches);
  BatchShape one_batch = shape_;
  one_batch.accumulate = 1;
  EvalRecord record;
  double loss_sum = 0.0;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    StepPart part;
    part.microbatches.assign(static_cast<std::size_t>(shape_.num_microbatches), {});
    add_result(executor_->run_forward(eval_loader_->load(batch, 0, /*training=*/false, 0.0)), 0, part);
    const StepReport report = combine_parts(eval_exchange_->gather(part, deadline()), mesh_, one_batch);
    loss_sum += report.loss * static_cast<double>(report.num_labels);
    record.num_labels += report.num_labels;
  }
  record.step = state_.step;
  record.loss = record.num_labels > 0 ? loss_sum / static_cast<double>(record.num_labels) : 0.0;
  record.eval_ms = milliseconds(monotonic_now() - start);
  for (const auto& observer : observers_) observer->on_eval(record);
}

void Trainer::report_shards() const {
  if (!fsdp_) return;
  for (const StageShards& stage : model_->shards_by_stage()) {
    const FsdpStats& stats = fsdp_->stats(stage.stage);
    say(fmt::format("stage {}: {} all-gathers and {} reduce-scatters of {} groups, {:.1f} ms waited for them",
                    stage.stage, stats.all_gathers, stats.reduce_scatters, stage.groups.size(),
                    milliseconds(stats.wait)));
  }
}

void Trainer::report_swap(TrainResult& result) const {
  if (!swap_) return;
  const SwapStats& stats = swap_->stats();
  result.swap = stats;
  result.most_swapped_bytes = swap_->store().most_bytes();
  say(fmt::format(
      "swap of rank 0: activations of {} microbatches, {} each way, at most {} at once; waited {:.1f} ms for "
      "offloads and {:.1f} ms for loads",
      stats.offloads, bytes_text(static_cast<double>(stats.bytes)),
      bytes_text(static_cast<double>(result.most_swapped_bytes)), milliseconds(stats.offload_wait),
      milliseconds(stats.load_wait)));
}

void Trainer::save() {
  settle();
  if (saved_at_ == state_.step) return;
  communicator_.transport().set_status(fmt::format("step {}, saving", state_.step));
  store_->save(state_, deadline());
  saves_ready_ = false;
  saved_at_ = state_.step;
}

void Trainer::finish(TrainResult& result) {
  if (store_ && job_.checkpoint.export_when == "final") export_model();
  if (job_.sample.prompt.empty()) return;
  if (fsdp_) fsdp_->unshard_all();
  // The ranks that hold the experts of replica 0 compute with it, so they continue the text too.
  if (mesh_.index(MeshAxis::kDp, world_->rank()) < mesh_.size(MeshAxis::kExpert)) result.sample = sample();
  if (fsdp_) fsdp_->reshard_all();
  // The others wait here, so that none ends while a pipeline still writes.
  world_->barrier(Deadline::after_seconds(job_.timeout_s * std::max(1, job_.sample.tokens)));
}

void Trainer::export_model() {
  const std::string folder = job_.checkpoint.folder + "/hf";
  agree(*world_, deadline(), [&] {
    if (!is_first_rank()) return std::string();
    std::filesystem::remove_all(folder);
    export_checkpoint(step_folder(job_.checkpoint.folder, state_.step), folder, dtype_named(job_.model.dtype));
    return std::string();
  });
  say(fmt::format("exported {}", folder));
}

std::string Trainer::sample() {
  SampleRequest request;
  request.config = job_.sample;
  request.seed = job_.seed;
  request.max_context = job_.data.sequence_length;
  request.timeout_s = job_.timeout_s;
  return sample_text(request, *model_, schedule_.placement, pipeline_ranks_, axes_->along(MeshAxis::kPipeline));
}

}  // namespace ppctl
