#include "train/rank_model.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "model/hf_folder.hpp"

namespace ppctl {
namespace {

at::ScalarType scalar_type(const std::string& name) {
  if (name == "float32") return at::kFloat;
  if (name == "bfloat16") return at::kBFloat16;
  throw_error("model.dtype is '{}'; it must be float32 or bfloat16", name);
}

}  // namespace

RankModel::RankModel(const JobConfig& job, const ModelSpec& spec, const Placement& placement, PipelineRank rank,
                     const std::vector<int>& layer_counts)
    : dtype_(scalar_type(job.model.dtype)) {
  const bool load = !job.model.from.empty() && job.model.load_weights;
  std::optional<HfWeights> weights;
  if (load) weights.emplace(job.model.from, spec);
  for (const StageId stage : placement.stages_of(rank)) {
    const auto module = build_stage(spec, dtype_, stage_range(layer_counts, stage.value), job.seed);
    if (load) {
      weights->load(*module);
    } else {
      initialize(*module, job.seed);
    }
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
