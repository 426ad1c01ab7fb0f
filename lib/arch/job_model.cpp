#include "arch/job_model.hpp"

#include <algorithm>
#include <numeric>

#include "arch/family.hpp"
#include "arch/model_work.hpp"
#include "base/error.hpp"
#include "storage/step_folders.hpp"
#include "topology/layer_split.hpp"

namespace ppctl {

namespace {

VisionSpec::Training training_named(const std::string& name) {
  if (name == "frozen") return VisionSpec::Training::kEncoderFrozen;
  return name == "projector_only" ? VisionSpec::Training::kProjectorOnly : VisionSpec::Training::kAll;
}

/// What the job says of a multimodal model's images. REQUIRES: mpipe leaves nothing to be chosen.
void apply_vision_keys(const JobConfig& job, ModelSpec& spec) {
  if (!spec.vision) {
    if (job.model.encoder != "trainable")
      throw job.fault("model.encoder",
                      fmt::format("'model.encoder' is {}, but {} has no images", job.model.encoder, spec.family));
    if (job.mpipe.enabled) {
      throw job.fault("pipeline.schedule",
                      fmt::format("mpipe needs a model with an encoder, and {} has none", spec.family));
    }
    return;
  }
  spec.vision->training = training_named(job.model.encoder);
  spec.vision->images_per_sample = job.data.images_per_sample;
  if (!job.mpipe.enabled || job.mpipe.layers == 0) return;
  PPCTL_CHECK(!job.mpipe.is_auto(), "what mpipe leaves to be chosen was not chosen");
  const std::int64_t all = spec.num_vision_layers();
  if (job.mpipe.layers > all)
    throw job.fault("mpipe.layers", fmt::format("'mpipe.layers' is {}; the encoder has {} layer{}", job.mpipe.layers,
                                                all, all == 1 ? "" : "s"));
  spec.transposed_layers = job.mpipe.layers < 0 ? all : job.mpipe.layers;
}

}  // namespace

ModelSpec read_model(const JobConfig& job) {
  if (!job.model.from.empty()) return read_hf_config(newest_checkpoint_or(job.model.from), job.model.hf);
  return parse_model_keys(job.model.family, job.model.hf, job.file.empty() ? "model" : job.file + ": model");
}

ModelSpec model_of_job(const JobConfig& job) {
  ModelSpec spec = read_model(job);
  apply_vision_keys(job, spec);
  const int ep = job.parallel.ep;
  if (ep > 1 && spec.num_experts == 0)
    throw job.fault("parallel.ep",
                    fmt::format("'parallel.ep' is {}, but the family {} has no experts", ep, spec.family));
  if (ep > 1 && spec.num_experts % ep != 0) {
    throw job.fault("parallel.ep",
                    fmt::format("'parallel.ep' ({}) does not divide the model's {} experts", ep, spec.num_experts));
  }
  return spec;
}

Mesh mesh_of_job(const JobConfig& job) {
  return {job.parallel.pp, job.parallel.dp_replicate, job.parallel.dp_shard, job.parallel.ep};
}

std::vector<int> layers_per_stage(const JobConfig& job, const ModelSpec& spec, const Placement& placement) {
  const int num_stages = placement.num_stages();
  const std::int64_t num_layers = spec.num_layers - spec.first_stage_layer();
  if (num_layers < num_stages) {
    throw job.fault("parallel.pp",
                    fmt::format("the model has {} layers, fewer than the {} stages of pp {} with {} a rank", num_layers,
                                num_stages, placement.pp(), placement.chunks()));
  }
  if (job.pipeline.layers == "auto") return split_layers(job, spec, placement);
  if (job.pipeline.layers != "list") return split_layers_uniformly(static_cast<int>(num_layers), placement);
  const std::vector<int>& counts = job.pipeline.layer_counts;
  const int sum = std::accumulate(counts.begin(), counts.end(), 0);
  if (static_cast<int>(counts.size()) != num_stages || sum != num_layers) {
    throw job.fault("pipeline.layers",
                    fmt::format("'pipeline.layers' lists {} stages with {} layers together; the job has {} stages and "
                                "the model {} layers",
                                counts.size(), sum, num_stages, num_layers));
  }
  return counts;
}

std::vector<int> split_layers(const JobConfig& job, const ModelSpec& spec, const Placement& placement,
                              const std::vector<int>& most_layers) {
  // Which layers `recompute.stages` means is not known before the split: they are split as if it meant none.
  std::vector<LayerActivations> activations;
  if (job.recompute.stages.empty()) activations = layer_activations(job, {static_cast<int>(spec.num_layers)});
  return split_layers_by_cost(model_work(job, spec, activations).split_costs(), placement.num_stages(), most_layers);
}

std::vector<LayerActivations> layer_activations(const JobConfig& job, const std::vector<int>& layer_counts) {
  const int num_stages = static_cast<int>(layer_counts.size());
  const int num_layers = std::accumulate(layer_counts.begin(), layer_counts.end(), 0);
  const RecomputeConfig& recompute = job.recompute;
  for (const int stage : recompute.stages) {
    if (stage >= num_stages) {
      throw job.fault("recompute.stages",
                      fmt::format("'recompute.stages' names stage {}; the job has {} stages", stage, num_stages));
    }
  }
  for (const int layer : job.swap.layer_list) {
    if (layer >= num_layers) {
      throw job.fault("swap.layers",
                      fmt::format("'swap.layers' names layer {}; the model has {} layers", layer, num_layers));
    }
  }
  const auto among = [](const std::vector<int>& list, int value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  std::vector<LayerActivations> result;
  for (int stage = 0; stage < num_stages; ++stage) {
    const bool here = recompute.stages.empty() || among(recompute.stages, stage);
    for (int i = 0; i < layer_counts[static_cast<std::size_t>(stage)]; ++i) {
      const int layer = static_cast<int>(result.size());
      LayerActivations activations;
      if (here && layer % recompute.every == 0) {
        activations.recompute = {recompute.full, recompute.attention, recompute.mlp};
      }
      activations.swapped = job.swap.layers == "list" ? among(job.swap.layer_list, layer) : !job.swap.layers.empty();
      result.push_back(activations);
    }
  }
  return result;
}

StageRange stage_range(const ModelSpec& spec, const std::vector<int>& layer_counts, int stage,
                       const std::vector<LayerActivations>& activations, const ExpertShare& experts) {
  StageRange range;
  range.experts = experts;
  range.first_layer = std::accumulate(layer_counts.begin(), layer_counts.begin() + stage, spec.first_stage_layer());
  range.last_layer = range.first_layer + layer_counts[static_cast<std::size_t>(stage)];
  range.has_embedding = stage == 0 && spec.stages_have_embedding();
  range.has_head = stage + 1 == static_cast<int>(layer_counts.size());
  if (!activations.empty()) {
    const auto first = activations.begin() - spec.first_stage_layer();
    range.activations.assign(first + range.first_layer, first + range.last_layer);
  }
  return range;
}

}  // namespace ppctl
