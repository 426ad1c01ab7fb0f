#include "train/rank_model.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "model/hf_folder.hpp"
#include "topology/layer_split.hpp"

namespace ppctl {
namespace {

at::ScalarType scalar_type(const std::string& name) {
  if (name == "float32") return at::kFloat;
  if (name == "bfloat16") return at::kBFloat16;
  throw_error("model.dtype is '{}'; it must be float32 or bfloat16", name);
}

LayerCosts costs_of(const ModelSpec& spec, std::int64_t sequence) {
  LayerCosts costs;
  costs.layers.assign(static_cast<std::size_t>(spec.num_layers), layer_cost(spec, sequence).forward_flops);
  costs.embedding = embedding_cost(spec).forward_flops;
  costs.head = head_cost(spec).forward_flops;
  return costs;
}

}  // namespace

ModelSpec model_of_job(const JobConfig& job) {
  if (!job.model.from.empty()) return read_hf_config(job.model.from, job.model.hf);
  return parse_model_keys(job.model.family, job.model.hf, job.file.empty() ? "model" : job.file + ": model");
}

std::vector<int> layers_per_stage(const JobConfig& job, const ModelSpec& spec, const Placement& placement) {
  const int num_stages = placement.num_stages();
  if (spec.num_layers < num_stages) {
    throw_error("the model has {} layers, fewer than the {} stages of pp {} with {} a rank", spec.num_layers,
                num_stages, placement.pp(), placement.chunks());
  }
  if (job.pipeline.layers == "auto") return split_layers_by_cost(costs_of(spec, job.data.sequence_length), num_stages);
  if (job.pipeline.layers != "list") return split_layers_uniformly(static_cast<int>(spec.num_layers), placement);
  const std::vector<int>& counts = job.pipeline.layer_counts;
  const int sum = std::accumulate(counts.begin(), counts.end(), 0);
  if (static_cast<int>(counts.size()) != num_stages || sum != spec.num_layers) {
    throw_error(
        "pipeline.layers lists {} stages with {} layers together; the job has {} stages and the model {} layers",
        counts.size(), sum, num_stages, spec.num_layers);
  }
  return counts;
}

RankModel::RankModel(const JobConfig& job, const ModelSpec& spec, const Placement& placement, PipelineRank rank,
                     const std::vector<int>& layer_counts)
    : dtype_(scalar_type(job.model.dtype)) {
  const bool load = !job.model.from.empty() && job.model.load_weights;
  std::optional<HfWeights> weights;
  if (load) weights.emplace(job.model.from, spec);
  for (const StageId stage : placement.stages_of(rank)) {
    const auto index = static_cast<std::ptrdiff_t>(stage.value);
    StageRange range;
    range.first_layer = std::accumulate(layer_counts.begin(), layer_counts.begin() + index, std::int64_t{0});
    range.last_layer = range.first_layer + layer_counts[static_cast<std::size_t>(index)];
    range.has_embedding = stage.value == 0;
    range.has_head = stage.value == placement.num_stages() - 1;
    const auto module = build_stage(spec, dtype_, range, job.seed);
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
