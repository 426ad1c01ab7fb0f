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

PartCost layer_cost(const ModelSpec& spec, const std::vector<LayerActivations>& activations, std::int64_t layer,
                    std::int64_t sequence) {
  DecoderLayerConfig config = layer_config(spec, layer);
  if (!activations.empty()) config.recompute = activations.at(static_cast<std::size_t>(layer)).recompute;
  return cost_of(config, sequence);
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
  for (const PartWork& layer : layers) costs.layers.push_back(layer.total());
  costs.embedding = embedding.total();
  costs.head = head.total();
  return costs;
}

ModelWork operations_of(const ModelSpec& spec, const std::vector<LayerActivations>& activations,
                        std::int64_t sequence) {
  ModelWork work;
  work.embedding = work_of(cost_of(embedding_config(spec)));
  for (std::int64_t i = 0; i < spec.num_layers; ++i) {
    work.layers.push_back(work_of(layer_cost(spec, activations, i, sequence)));
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
  work.in_ms = true;
  work.embedding = measured(profile.embedding);
  work.head = measured(profile.head);
  for (std::int64_t i = 0; i < spec.num_layers; ++i) {
    const PartCost cost = layer_cost(spec, activations, i, sequence);
    PartWork layer = measured(profile.layers[static_cast<std::size_t>(i)]);
    layer.dx += layer.forward * cost.recompute_flops / cost.forward_flops;
    work.layers.push_back(layer);
  }
  return work;
}

}  // namespace ppctl
