#include "train/rank_model.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "model/hf_folder.hpp"
#include "storage/step_folders.hpp"
#include "train/checkpoint_weights.hpp"

namespace ppctl {

namespace {

/// Where a job's first weights come from: a checkpoint, a Hugging Face folder, or the seed.
class WeightSource {
 public:
  WeightSource(const JobConfig& job, const ModelSpec& spec) : seed_(job.seed) {
    if (job.model.from.empty() || !job.model.load_weights) return;
    const std::string folder = newest_checkpoint_or(job.model.from);
    if (is_checkpoint(folder)) {
      checkpoint_ = std::make_unique<CheckpointReader>(folder);
    } else {
      hf_.emplace(folder, spec);
    }
  }

  /// Fills `flat`, which has the layout of the group's flat buffers.
  void fill(const ParameterGroup& group, const at::Tensor& flat) const {
    if (checkpoint_) {
      load_checkpoint_weights(*checkpoint_, group, flat);
    } else if (hf_) {
      hf_->load(group, flat);
    } else {
      initialize(group, flat, seed_);
    }
  }

 private:
  std::uint64_t seed_;
  std::unique_ptr<CheckpointReader> checkpoint_;
  std::optional<HfWeights> hf_;
};

}  // namespace

at::ScalarType dtype_named(const std::string& name) {
  if (name == "float32") return at::kFloat;
  if (name == "bfloat16") return at::kBFloat16;
  throw_error("the dtype is '{}'; it must be float32 or bfloat16", name);
}

at::ScalarType compute_dtype(const JobConfig& job) {
  return dtype_named(job.precision.param.empty() ? job.model.dtype : job.precision.param);
}

RankModel::RankModel(const JobConfig& job, const ModelSpec& spec, const Placement& placement,
                     const MeshCoordinates& place, const ModelPlan& plan) {
  const WeightSource weights(job, spec);
  const Mesh mesh = mesh_of_job(job);
  const int rank = mesh.world_rank(place);
  const ExpertShare experts{mesh.index(MeshAxis::kExpert, rank), mesh.size(MeshAxis::kExpert)};
  const auto shard = [&](StageModule& module) {
    std::vector<std::unique_ptr<GroupShard>> shards;
    for (ParameterGroup* group : module.parameter_groups()) {
      const MeshAxis axis = group->kind() == GroupKind::kExperts ? MeshAxis::kExpertShard : MeshAxis::kDpShard;
      shards.push_back(std::make_unique<GroupShard>(*group, mesh.index(axis, rank), mesh.size(axis)));
      shards.back()->fill([&](const at::Tensor& flat) { weights.fill(*group, flat); });
    }
    return shards;
  };
  for (const StageId stage : placement.stages_of(place.pp)) {
    const StageRange range = stage_range(spec, plan.layer_counts, stage.value, plan.activations, experts);
    reads_tokens_ |= ppctl::reads_tokens(spec, range);
    reads_images_ |= ppctl::reads_images(spec, range);
    const auto module = build_stage(spec, compute_dtype(job), range, job.seed);
    shards_.push_back(shard(*module));
    stages_.push_back(std::make_shared<PipelineStage>(module, stage.value, placement.num_stages()));
  }
  if (spec.transposed_layers >= 0) {
    encoder_ = build_stage(spec, compute_dtype(job), transposed_range(spec), job.seed);
    encoder_shards_ = shard(*encoder_);
  }
}

std::vector<GroupShard*> RankModel::encoder_shards() const {
  std::vector<GroupShard*> shards;
  for (const auto& shard : encoder_shards_) shards.push_back(shard.get());
  return shards;
}

std::vector<GroupShard*> RankModel::shards() const {
  std::vector<GroupShard*> all;
  for (const StageShards& stage : shards_by_stage()) all.insert(all.end(), stage.groups.begin(), stage.groups.end());
  for (const auto& shard : encoder_shards_) all.push_back(shard.get());
  return all;
}

std::vector<StageShards> RankModel::shards_by_stage() const {
  std::vector<StageShards> all;
  for (std::size_t chunk = 0; chunk < stages_.size(); ++chunk) {
    StageShards stage{stages_[chunk]->stage(), {}};
    for (const auto& shard : shards_[chunk]) stage.groups.push_back(shard.get());
    all.push_back(std::move(stage));
  }
  return all;
}

bool RankModel::has_last_stage() const {
  return std::ranges::any_of(stages_, [](const StagePtr& stage) { return stage->is_last(); });
}

void RankModel::clear_grads() {
  for (const GroupShard* shard : shards()) shard->clear_grads();
}

}  // namespace ppctl
