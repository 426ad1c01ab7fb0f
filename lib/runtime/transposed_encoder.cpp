#include "runtime/transposed_encoder.hpp"

#include <utility>

#include "base/error.hpp"
#include "schedule/text.hpp"

namespace ppctl {
namespace {

/// Kinds of message, as the edges' receiving stages.
enum Mail { kData, kFeatures, kFeatureGrads, kNumMails };

Transfer transfer_of(const MetaStep& step, Mail mail) {
  return {false, mail, step.microbatch().value, step.peer().value};
}

std::vector<at::Tensor> gradients_of(StageModule* module, bool trains) {
  std::vector<at::Tensor> gradients;
  if (module == nullptr || !trains) return gradients;
  for (const ParameterGroup* group : module->parameter_groups()) {
    if (group->trainable()) gradients.push_back(group->flat_grad());
  }
  return gradients;
}

}  // namespace

TransposedEncoder::TransposedEncoder(const Schedule& schedule, const PipelineRanks& ranks,
                                     std::shared_ptr<StageModule> module, Loader loader, Group& pipeline,
                                     TransposedEncoderOptions options)
    : module_(std::move(module)),
      loader_(std::move(loader)),
      options_(options),
      edges_(*ranks.transport, ranks.world_ranks, kNumMails, schedule.num_microbatches, options.tag_space),
      pipeline_(pipeline),
      num_microbatches_(schedule.num_microbatches) {
  fold_.emplace(pipeline_, gradients_of(module_.get(), options.trains), num_microbatches_);
}

void TransposedEncoder::set_shard(ShardHooks& shard, StageId stage) {
  shard_ = &shard;
  shard_stage_ = stage;
}

void TransposedEncoder::set_shard(ShardHooks& shard, StageId stage, std::vector<at::Tensor> gradients) {
  set_shard(shard, stage);
  reduces_every_microbatch_ = true;
  fold_.emplace(pipeline_, std::move(gradients), num_microbatches_, /*are_shards=*/true);
}

void TransposedEncoder::begin_step(std::span<const Microbatch> microbatches) {
  microbatches_ = microbatches;
  slots_.clear();
  slots_.resize(microbatches.size());
  queue_.clear();
  if (shard_ != nullptr) shard_->unshard(shard_stage_);
  const bool training = !microbatches.empty() && microbatches[0].training;
  if (training && options_.trains && options_.accumulates) fold_->resume();
}

void TransposedEncoder::run(const MetaStep& step, StepContext& /*context*/) {
  Slot& own = slot(step);
  switch (step.type()) {
    case MetaStepType::LOAD_DATA:
      return load(step);
    case MetaStepType::PREPROCESS_FORWARD:
      return forward(step);
    case MetaStepType::PREPROCESS_BACKWARD:
    case MetaStepType::PREPROCESS_BACKWARD_INPUT:
      return backward(step);
    case MetaStepType::PREPROCESS_BACKWARD_WEIGHT:
      return backward_weight(step);
    case MetaStepType::SEND_DATA:
      return edges_.send(transfer_of(step, kData), std::exchange(own.features, {}));
    case MetaStepType::SEND_FEATURES:
      return edges_.send(transfer_of(step, kFeatures), std::exchange(own.features, {}));
    case MetaStepType::SEND_FEATURE_GRADS:
      return edges_.send(transfer_of(step, kFeatureGrads), std::exchange(own.grads, {}));
    case MetaStepType::RECV_DATA:
      own.incoming = edges_.post(transfer_of(step, kData));
      return;
    case MetaStepType::RECV_FEATURES:
      own.incoming = edges_.post(transfer_of(step, kFeatures));
      return;
    default:
      PPCTL_CHECK(step.type() == MetaStepType::RECV_FEATURE_GRADS, "a {} step to preprocess", to_string(step.type()));
      own.incoming_grads = edges_.post(transfer_of(step, kFeatureGrads));
  }
}

void TransposedEncoder::load(const MetaStep& step) {
  TensorList loaded = loader_(microbatch(step));
  (module_ == nullptr ? slot(step).features : slot(step).data) = std::move(loaded);
}

void TransposedEncoder::forward(const MetaStep& step) {
  Slot& own = slot(step);
  if (shard_ != nullptr) shard_->before_compute(shard_stage_, /*makes_weight_grads=*/false);
  const bool has_backward = options_.trains && microbatch(step).training;
  const bool repeats = options_.recomputes && has_backward;
  TensorList inputs = repeats ? own.data : std::exchange(own.data, {});
  own.features = module_->forward(microbatch(step), std::move(inputs), own.saved, nullptr);
  if (repeats || !has_backward) own.saved = SavedActivations();
}

void TransposedEncoder::backward(const MetaStep& step) {
  Slot& own = slot(step);
  const int j = step.microbatch().value;
  const bool whole = step.type() == MetaStepType::PREPROCESS_BACKWARD;
  if (shard_ != nullptr) shard_->before_compute(shard_stage_, /*makes_weight_grads=*/whole);
  if (options_.recomputes) module_->forward(microbatch(step), std::exchange(own.data, {}), own.saved, nullptr);
  queue_.begin_microbatch(j, /*defer=*/!whole);
  module_->backward(microbatch(step), std::exchange(own.grads, {}), own.saved, queue_);
  queue_.end_microbatch();
  own.saved = SavedActivations();
  // A module that queues nothing has made its gradients: they are taken before another microbatch adds to them.
  if (!queue_.has_work(j)) keep_gradients(j);
}

void TransposedEncoder::backward_weight(const MetaStep& step) {
  const int j = step.microbatch().value;
  const bool is_made_here = queue_.has_work(j);
  if (is_made_here && shard_ != nullptr) shard_->before_compute(shard_stage_, /*makes_weight_grads=*/true);
  queue_.drain(j);
  if (is_made_here) keep_gradients(j);
}

void TransposedEncoder::keep_gradients(int microbatch) {
  if (reduces_every_microbatch_) shard_->reduce_grad(shard_stage_);
  fold_->keep(microbatch);
}

TensorList TransposedEncoder::wait_for(PendingTensors& pending, std::string_view context, WaitSpan* wait) const {
  wait->peer = PipelineRank(pending.peer());
  wait->start = monotonic_now();
  TensorList tensors = pending.wait(deadline(), context);
  wait->end = monotonic_now();
  return tensors;
}

void TransposedEncoder::await(const MetaStep& step, std::string_view context, WaitSpan* wait) {
  Slot& own = slot(step);
  if (!takes_feature_grads(step.type()) || !own.incoming_grads.valid()) return;
  own.grads = wait_for(own.incoming_grads, context, wait);
}

TensorList TransposedEncoder::take_features(const MetaStep& forward, std::string_view context, WaitSpan* wait) {
  Slot& own = slot(forward);
  if (own.incoming.valid()) return wait_for(own.incoming, context, wait);
  return std::exchange(own.features, {});
}

void TransposedEncoder::give_feature_grads(const MetaStep& backward, TensorList grads) {
  if (options_.trains) slot(backward).grads = std::move(grads);
}

void TransposedEncoder::end_step(std::string_view context) {
  edges_.finish_sends(deadline(), context);
  const bool training = !microbatches_.empty() && microbatches_[0].training;
  if (training && options_.trains && module_ != nullptr) {
    PPCTL_CHECK(queue_.empty(), "{}: weight gradients of {} microbatches are still queued", context, queue_.size());
    fold_->fold(deadline());
    if (last_batch_) {
      const bool reduces = shard_ != nullptr && !reduces_every_microbatch_;
      if (reduces) shard_->before_compute(shard_stage_, /*makes_weight_grads=*/true);
      fold_->finish(deadline());
      if (reduces) shard_->reduce_grad(shard_stage_);
    }
  }
  if (shard_ != nullptr) shard_->reshard(shard_stage_);
  slots_.clear();
}

}  // namespace ppctl
