#include "base/error.hpp"
#include "train/agreement.hpp"
#include "train/image_samples.hpp"
#include "train/job_links.hpp"
#include "train/overlap_gain.hpp"
#include "train/supported.hpp"
#include "train/swap_tier.hpp"
#include "train/trainer.hpp"

namespace ppctl {
namespace {

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) ranks[static_cast<std::size_t>(rank)] = rank;
  return ranks;
}

/// A held-out batch has the shape of a training batch.
void check_evaluation(const JobConfig& job, const Dataset& dataset, const BatchShape& shape) {
  if (job.eval.every <= 0) return;
  if (!dataset.evaluation) {
    throw job.fault("eval.every",
                    fmt::format("'eval.every' is {}, but 'data.eval_fraction' holds nothing out", job.eval.every));
  }
  if (dataset.evaluation->num_samples() < shape.samples_per_batch()) {
    throw job.fault(
        "data.eval_fraction",
        fmt::format("'data.eval_fraction' holds {} samples out; an evaluation takes at least one batch of {}",
                    dataset.evaluation->num_samples(), shape.samples_per_batch()));
  }
}

std::vector<GroupShard*> of_kind(GroupKind kind, const std::vector<GroupShard*>& shards) {
  std::vector<GroupShard*> found;
  for (GroupShard* shard : shards) {
    if (shard->group().kind() == kind) found.push_back(shard);
  }
  return found;
}

void check_sample(const JobConfig& job, const ModelSpec& spec) {
  if (job.sample.prompt.empty()) return;
  if (job.mpipe.enabled) throw_error("sample.prompt does not go together with mpipe");
  if (job.data.kind != "text") throw_error("sample.prompt continues bytes of text; data.kind is {}", job.data.kind);
  if (spec.vocab_size < 256)
    throw_error("sample.prompt needs a vocabulary of 256 bytes; the model has {}", spec.vocab_size);
}

}  // namespace

Trainer::Trainer(const JobConfig& job, Schedule schedule, Communicator& communicator, TrainOptions options)
    : job_(job),
      link_(emulate_job_links(communicator, job.link)),
      schedule_(std::move(schedule)),
      communicator_(link_ ? *link_ : communicator),
      options_(std::move(options)) {
  Transport& transport = communicator_.transport();
  transport.set_status("set-up");
  if (job_.log.memory) meter_.emplace();
  world_ = communicator_.group(all_ranks(transport.size()), "world");
  agree(*world_, deadline(), [&] {
    check_supported(job_);
    if (transport.size() != job_.world_size()) {
      throw_error("the job has pp {} x dp {} = {} ranks, but {} were started", job_.parallel.pp, job_.dp(),
                  job_.world_size(), transport.size());
    }
    prepare_alone();
    return std::string();
  });
  connect();
}

Trainer::~Trainer() = default;

void Trainer::prepare_alone() {
  const int rank = communicator_.transport().rank();
  mesh_ = mesh_of_job(job_);
  shape_ = BatchShape::of(job_);
  pipeline_ranks_ = {&communicator_.transport(), mesh_.coordinates(rank).pp,
                     mesh_.ranks_along(MeshAxis::kPipeline, rank)};
  spec_ = model_of_job(job_);
  plan_ = model_plan(job_, spec_, schedule_);
  check_sample(job_, spec_);
  if (options_.samples) {
    dataset_.training = options_.samples;
    dataset_.description = "samples of the caller";
  } else {
    dataset_ = open_dataset(job_.data, spec_.vocab_size, /*with_entropy=*/rank == 0);
    add_images(job_, spec_, dataset_);
  }
  if (spec_.max_positions > 0 && spec_.learned_positions && job_.data.sequence_length > spec_.max_positions) {
    throw job_.fault("data.sequence_length",
                     fmt::format("'data.sequence_length' is {}, more than the model's {} positions",
                                 job_.data.sequence_length, spec_.max_positions));
  }
  check_evaluation(job_, dataset_, shape_);
  lr_schedule_.emplace(job_.lr_schedule, job_.optimizer.lr, total_steps());
  model_.emplace(job_, spec_, schedule_.placement, mesh_.coordinates(rank), plan_);
  optimizer_.emplace(job_.optimizer, model_->shards());

  // Under MPipe each rank loads the images of its own microbatches, when the schedule says so.
  const BatchNeeds needs{model_->reads_tokens(), model_->has_last_stage(),
                         model_->reads_images() && !job_.mpipe.enabled};
  const int replica = mesh_.index(MeshAxis::kDp, rank);
  const SampleOrder order(dataset_.training->num_samples(), job_.data.order == "shuffled", job_.seed);
  loader_.emplace(dataset_.training, order, shape_, replica, needs);
  if (job_.eval.every > 0) {
    BatchShape eval_shape = shape_;
    eval_shape.accumulate = 1;
    const SampleOrder eval_order(dataset_.evaluation->num_samples(), /*shuffled=*/false, 0);
    eval_loader_.emplace(dataset_.evaluation, eval_order, eval_shape, replica, needs);
  }
}

void Trainer::connect() {
  const int rank = world_->rank();
  const auto shards = model_->shards();
  const auto by_stage = model_->shards_by_stage();
  const int replica = mesh_.index(MeshAxis::kDp, rank);
  const at::ScalarType reduce_dtype = dtype_named(job_.precision.reduce);
  axes_.emplace(communicator_, mesh_);
  if (job_.pipeline.overlap_b_f && gains_from_overlap(*world_, link_ != nullptr, deadline())) {
    pairs_ = std::make_unique<OverlappedPairs>(communicator_.transport(), job_.timeout_s);
  }
  connect_experts();
  tied_ = std::make_unique<TiedWeights>(communicator_, axes_->along(MeshAxis::kPipeline), by_stage,
                                        fmt::format("tied {}", replica));
  tied_->equalise_values(deadline());
  optimizer_->publish();
  stage_replicas_ =
      std::make_unique<StageReplicas>(communicator_, schedule_.placement, pipeline_ranks_.rank,
                                      pipeline_ranks_.world_ranks, by_stage, fmt::format("stage replicas {}", replica));
  grad_replicas_ = std::make_unique<GradReplicas>(axes_->along(MeshAxis::kDpReplicate),
                                                  of_kind(GroupKind::kCommon, shards), reduce_dtype);
  expert_replicas_ = std::make_unique<GradReplicas>(axes_->along(MeshAxis::kExpertReplicate),
                                                    of_kind(GroupKind::kExperts, shards), reduce_dtype);
  norm_ = std::make_unique<GradNorm>(shards, *world_, deadline());
  const auto microbatches =
      static_cast<std::size_t>(shape_.num_microbatches) * static_cast<std::size_t>(shape_.accumulate);
  if (job_.pipeline.post_validation) {
    post_validation_ = std::make_unique<PostValidation>(
        job_.optimizer, GradNorm(shards, axes_->along(MeshAxis::kPipeline), deadline()), *optimizer_, pipeline_ranks_);
  }
  exchange_ = std::make_unique<StepExchange>(*world_, post_validation_ ? 0 : norm_->num_slots(), microbatches);
  eval_exchange_ = std::make_unique<StepExchange>(*world_, 0, static_cast<std::size_t>(shape_.num_microbatches));
  ExecutorOptions executor_options;
  executor_options.timeout_s = job_.timeout_s;
  executor_options.validates = job_.pipeline.post_validation;
  executor_ = std::make_unique<Executor>(schedule_, pipeline_ranks_, model_->stages(), executor_options);
  if (pairs_) {
    executor_->register_custom_function(MetaStepType::OVERLAP_B_F, pairs_->function());
  }
  if (job_.parallel.dp_shard > 1) {
    FsdpOptions fsdp;
    fsdp.reduce_every_microbatch = job_.fsdp.reduce == "microbatch";
    fsdp.reduce_dtype = reduce_dtype;
    fsdp.timeout_s = job_.timeout_s;
    auto sharded = by_stage;
    if (model_->encoder() != nullptr) sharded.push_back({encoder_stage(), model_->encoder_shards()});
    fsdp_ =
        std::make_unique<Fsdp>(axes_->along(MeshAxis::kDpShard), axes_->along(MeshAxis::kExpertShard), sharded, fsdp);
  }
  if (!job_.swap.layers.empty()) {
    agree(*world_, deadline(), [&] {
      swap_ = make_activation_swap(job_.swap, job_.timeout_s);
      return std::string();
    });
  }
  if (job_.mpipe.enabled) connect_encoder();
  executor_->set_hooks({.shard = fsdp_.get(), .swap = swap_.get(), .preprocess = encoder_.get()});

  if (meter_) {
    memory_.emplace(*meter_, planned_memory(schedule_, memory_model(job_, spec_, plan_), mesh_));
  }

  if (!job_.checkpoint.folder.empty()) {
    store_ =
        std::make_unique<CheckpointStore>(job_, spec_, dtype_named(job_.model.dtype), *optimizer_, *world_, deadline());
    store_->on_saved([this](const std::string& text) { say(text); });
    if (job_.checkpoint.resume) resumed_ = store_->resume(deadline());
  }
  if (resumed_) {
    optimizer_->publish();
    state_ = resumed_->state;
    saved_at_ = state_.step;
    loader_->begin_at(state_.step, state_.samples);
  }
  agree(*world_, deadline(), [&] {
    if (rank == 0 && options_.make_observers) observers_ = options_.make_observers(state_.step > 0);
    return std::string();
  });
}

void Trainer::connect_experts() {
  if (mesh_.size(MeshAxis::kExpert) == 1) return;
  const std::vector<int>& ranks = axes_->along(MeshAxis::kExpert).world_ranks();
  expert_exchange_ = std::make_unique<GroupExpertExchange>(communicator_, ranks, job_.timeout_s);
  if (pairs_) overlapped_exchange_ = std::make_unique<OverlappedExchange>(*expert_exchange_, pairs_->overlap());
  ExpertExchange* exchange = overlapped_exchange_ ? overlapped_exchange_.get() : expert_exchange_.get();
  for (const StagePtr& stage : model_->stages()) stage->module().set_expert_exchange(exchange);
}

void Trainer::connect_encoder() {
  TransposedEncoderOptions options;
  options.trains = model_->encoder() != nullptr && spec_.vision->training == VisionSpec::Training::kAll;
  options.recomputes = job_.mpipe.backward == "recompute";
  options.timeout_s = job_.timeout_s;
  const auto load = [this](const Microbatch& microbatch) {
    const BatchLoader& loader = microbatch.training ? *loader_ : *eval_loader_;
    return TensorList{loader.load_pixels(microbatch.first_sample, shape_.microbatch_size)};
  };
  encoder_ = std::make_unique<TransposedEncoder>(schedule_, pipeline_ranks_, model_->encoder(), load,
                                                 axes_->along(MeshAxis::kPipeline), options);
  if (!fsdp_ || model_->encoder() == nullptr) return;
  if (job_.fsdp.reduce != "microbatch") return encoder_->set_shard(*fsdp_, encoder_stage());
  std::vector<at::Tensor> gradients;
  for (const GroupShard* shard : model_->encoder_shards()) {
    if (options.trains && shard->trainable()) gradients.push_back(shard->flat_grad());
  }
  encoder_->set_shard(*fsdp_, encoder_stage(), std::move(gradients));
}

std::int64_t Trainer::total_steps() const {
  const std::int64_t tokens = shape_.samples_per_step() * job_.data.sequence_length;
  const std::int64_t by_tokens = (job_.stop_tokens + tokens - 1) / tokens;
  if (job_.stop_tokens <= 0) return job_.steps;
  return job_.steps > 0 ? std::min(job_.steps, by_tokens) : by_tokens;
}

}  // namespace ppctl
