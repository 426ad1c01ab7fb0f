#include "arch/job_model.hpp"

#include <numeric>

#include "arch/cost.hpp"
#include "arch/family.hpp"
#include "base/error.hpp"
#include "storage/step_folders.hpp"
#include "topology/layer_split.hpp"

namespace ppctl {

ModelSpec model_of_job(const JobConfig& job) {
  if (!job.model.from.empty()) return read_hf_config(newest_checkpoint_or(job.model.from), job.model.hf);
  return parse_model_keys(job.model.family, job.model.hf, job.file.empty() ? "model" : job.file + ": model");
}

std::vector<int> layers_per_stage(const JobConfig& job, const ModelSpec& spec, const Placement& placement) {
  const int num_stages = placement.num_stages();
  if (spec.num_layers < num_stages) {
    throw_error("the model has {} layers, fewer than the {} stages of pp {} with {} a rank", spec.num_layers,
                num_stages, placement.pp(), placement.chunks());
  }
  if (job.pipeline.layers == "auto") {
    return split_layers_by_cost(layer_costs(spec, job.data.sequence_length), num_stages);
  }
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

StageRange stage_range(const std::vector<int>& layer_counts, int stage) {
  StageRange range;
  range.first_layer = std::accumulate(layer_counts.begin(), layer_counts.begin() + stage, std::int64_t{0});
  range.last_layer = range.first_layer + layer_counts[static_cast<std::size_t>(stage)];
  range.has_embedding = stage == 0;
  range.has_head = stage + 1 == static_cast<int>(layer_counts.size());
  return range;
}

}  // namespace ppctl
