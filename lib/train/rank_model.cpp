#include "train/rank_model.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "model/hf_folder.hpp"
#include "storage/step_folders.hpp"
#include "train/checkpoint_weights.hpp"

namespace ppctl {
namespace {

at::ScalarType scalar_type(const std::string& name) {
  if (name == "float32") return at::kFloat;
  if (name == "bfloat16") return at::kBFloat16;
  throw_error("model.dtype is '{}'; it must be float32 or bfloat16", name);
}

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

  void fill(StageModule& stage) const {
    if (checkpoint_) {
      load_checkpoint_weights(*checkpoint_, stage);
    } else if (hf_) {
      hf_->load(stage);
    } else {
      initialize(stage, seed_);
    }
  }

 private:
  std::uint64_t seed_;
  std::unique_ptr<CheckpointReader> checkpoint_;
  std::optional<HfWeights> hf_;
};

}  // namespace

RankModel::RankModel(const JobConfig& job, const ModelSpec& spec, const Placement& placement, PipelineRank rank,
                     const std::vector<int>& layer_counts)
    : dtype_(scalar_type(job.model.dtype)) {
  const WeightSource weights(job, spec);
  for (const StageId stage : placement.stages_of(rank)) {
    const auto module = build_stage(spec, dtype_, stage_range(layer_counts, stage.value), job.seed);
    weights.fill(*module);
    stages_.push_back(std::make_shared<PipelineStage>(module, stage.value, placement.num_stages()));
  }
}

std::vector<ParameterGroup*> RankModel::groups() const {
  std::vector<ParameterGroup*> groups;
  for (const StagePtr& stage : stages_) {
    const auto own = stage->module().parameter_groups();
    groups.insert(groups.end(), own.begin(), own.end());
  }
  return groups;
}

std::vector<StageParameters> RankModel::parameters() const {
  std::vector<StageParameters> parameters;
  for (const StagePtr& stage : stages_) parameters.push_back({stage->stage(), stage->module().parameter_groups()});
  return parameters;
}

bool RankModel::has_first_stage() const {
  return std::ranges::any_of(stages_, [](const StagePtr& stage) { return stage->is_first(); });
}

bool RankModel::has_last_stage() const {
  return std::ranges::any_of(stages_, [](const StagePtr& stage) { return stage->is_last(); });
}

void RankModel::zero_grad() {
  for (ParameterGroup* group : groups()) group->zero_grad();
}

}  // namespace ppctl
