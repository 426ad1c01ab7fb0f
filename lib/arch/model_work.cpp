#include "arch/model_work.hpp"

#include "arch/cost.hpp"
#include "arch/family.hpp"
#include "arch/layer_profile.hpp"
#include "base/error.hpp"

namespace ppctl {
namespace {

PartWork work_of(const PartCost& cost) {
  return {cost.forward_flops, cost.dx_flops + cost.recompute_flops, cost.dw_flops};
}

PartCost cost_of_layer(const ModelSpec& spec, const std::vector<LayerActivations>& activations, std::int64_t layer,
                       std::int64_t sequence) {
  DecoderLayerConfig config = layer_config(spec, layer);
  const std::int64_t in_stages = layer - spec.first_stage_layer();
  if (!activations.empty() && in_stages >= 0) {
    config.recompute = activations.at(static_cast<std::size_t>(in_stages)).recompute;
  }
  return layer_cost(spec, config, layer, sequence);
}

void set_stages(const ModelSpec& spec, ModelWork& work) {
  work.first_stage_layer = spec.first_stage_layer();
  work.stages_have_embedding = spec.stages_have_embedding();
}

void check_profile(const LayerProfile& profile, const JobConfig& job, const ModelSpec& spec) {
  const auto refuse = [&](const char* what, const auto& in_profile, const auto& in_job) {
    if (in_profile != in_job) {
      throw_error("{}: measured with {} {}, but the job has {}; measure again with `ppctl bench --profile`",
                  job.profile, what, in_profile, in_job);
    }
  };
  refuse("family", profile.family, spec.family);
  refuse("dtype", profile.dtype, job.precision.param.empty() ? job.model.dtype : job.precision.param);
  refuse("layers", static_cast<std::int64_t>(profile.layers.size()), spec.num_layers);
  refuse("microbatch_size", profile.samples, job.microbatch_size());
  refuse("sequence_length", profile.sequence, job.data.sequence_length);
}

}  // namespace

PartWork& PartWork::operator+=(const PartWork& other) {
  forward += other.forward;
  dx += other.dx;
  dw += other.dw;
  return *this;
}

PartWork ModelWork::of(const StageRange& range) const {
  PartWork work;
  if (range.has_embedding) work += embedding;
  for (std::int64_t i = range.first_layer; i < range.last_layer; ++i) work += layers.at(static_cast<std::size_t>(i));
  if (range.has_head) work += head;
  return work;
}

LayerCosts ModelWork::split_costs() const {
  LayerCosts costs;
  for (auto i = static_cast<std::size_t>(first_stage_layer); i < layers.size(); ++i) {
    costs.layers.push_back(layers[i].total());
  }
  if (stages_have_embedding) costs.embedding = embedding.total();
  costs.head = head.total();
  return costs;
}

ModelWork operations_of(const ModelSpec& spec, const std::vector<LayerActivations>& activations,
                        std::int64_t sequence) {
  ModelWork work;
  set_stages(spec, work);
  work.embedding = work_of(embedding_cost(spec, sequence));
  for (std::int64_t i = 0; i < spec.num_layers; ++i) {
    work.layers.push_back(work_of(cost_of_layer(spec, activations, i, sequence)));
    if (spec.vision && i == spec.num_vision_layers()) work.layers.back() += work_of(merge_cost(spec, sequence));
  }
  work.head = work_of(cost_of(head_config(spec)));
  return work;
}

ModelWork model_work(const JobConfig& job, const ModelSpec& spec, const std::vector<LayerActivations>& activations) {
  const std::int64_t sequence = job.data.sequence_length;
  if (job.profile.empty()) return operations_of(spec, activations, sequence);
  ModelWork work;
  const LayerProfile profile = read_profile(job.profile);
  check_profile(profile, job, spec);
  const auto measured = [](const PartTimes& part) { return PartWork{part.forward_ms, part.dx_ms, part.dw_ms}; };
  set_stages(spec, work);
  work.in_ms = true;
  work.embedding = measured(profile.embedding);
  work.head = measured(profile.head);
  for (std::int64_t i = 0; i < spec.num_layers; ++i) {
    const PartCost cost = cost_of_layer(spec, activations, i, sequence);
    PartWork layer = measured(profile.layers[static_cast<std::size_t>(i)]);
    layer.dx += layer.forward * cost.recompute_flops / cost.forward_flops;
    work.layers.push_back(layer);
  }
  return work;
}

}  // namespace ppctl
