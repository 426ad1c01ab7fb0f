#include "plan_inputs.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/error.hpp"
#include "commands.hpp"
#include "job_schedule.hpp"
#include "plan_model.hpp"
#include "simulate/model_costs.hpp"
#include "topology/layer_split.hpp"
#include "topology/mesh.hpp"

namespace ppctl {
namespace {

constexpr double kMib = 1024.0 * 1024.0;

/// The numbers of --layers. One: layers of the model; several: of each stage.
std::vector<int> parse_layers(const std::string& text) {
  std::vector<int> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    int number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 0)
      throw_error("--layers {}: write the layers of the model (40) or of each stage (2,3,3,2)", text);
    numbers.push_back(number);
    if (next == end) return numbers;
    if (*next != ',') throw_error("--layers {}: write the layers of the model (40) or of each stage (2,3,3,2)", text);
    at = next + 1;
  }
}

/// Layers of the model as the job says, where it does.
std::optional<int> job_layers(const JobConfig& job) {
  for (const char* key : {"num_hidden_layers", "n_layer"}) {
    const auto found = job.model.hf.find(key);
    if (found == job.model.hf.end()) continue;
    int layers = 0;
    const auto [end, error] =
        std::from_chars(found->second.data(), found->second.data() + found->second.size(), layers);
    if (error == std::errc()) return layers;
  }
  return std::nullopt;
}

/// Layers of each stage, or nothing where neither options nor job say how many the model has.
std::vector<int> layers_by_stage(const PlanOptions& options, const JobConfig& job, const Placement& placement) {
  std::vector<int> layers = options.layers.empty() ? std::vector<int>() : parse_layers(options.layers);
  if (layers.empty() && job.pipeline.layers == "list") layers = job.pipeline.layer_counts;
  if (layers.empty() && job_layers(job)) layers = {*job_layers(job)};
  if (layers.size() == 1 && placement.num_stages() > 1) {
    if (layers[0] < placement.num_stages()) {
      throw_error("{} stages (pp {} x {} chunks) need at least as many layers; the model has {}",
                  placement.num_stages(), placement.pp(), placement.chunks(), layers[0]);
    }
    return split_layers_uniformly(layers[0], placement);
  }
  if (!layers.empty() && static_cast<int>(layers.size()) != placement.num_stages()) {
    throw_error("{} numbers of layers for {} stages (pp {} x {} chunks)", layers.size(), placement.num_stages(),
                placement.pp(), placement.chunks());
  }
  return layers;
}

/// The options that a job file has keys for, as --set.
std::vector<std::string> sets_from_options(const PlanOptions& options) {
  std::vector<std::string> sets = options.sets;
  const auto add = [&](const char* key, const auto& value) {
    if (value) sets.push_back(fmt::format("{}={}", key, *value));
  };
  const auto add_flag = [&](const char* key, bool on) {
    if (on) sets.push_back(fmt::format("{}=true", key));
  };
  if (!options.schedule.empty()) sets.push_back("pipeline.schedule=" + yaml_quoted(options.schedule));
  add("parallel.pp", options.pp);
  add("pipeline.chunks", options.chunks);
  add("batch.microbatches", options.microbatches);
  add("pipeline.group", options.group);
  add("pipeline.memory_limit", options.memory_limit);
  if (options.memory_gib > 0) sets.push_back(fmt::format("memory_gib={}", options.memory_gib));
  add_flag("pipeline.less_memory", options.less_memory);
  add_flag("pipeline.overlap_p2p", options.overlap_p2p);
  add_flag("pipeline.overlap_b_f", options.overlap_b_f);
  add_flag("pipeline.duplex", options.duplex);
  add_flag("pipeline.split_backward", options.split_backward);
  add_flag("pipeline.post_validation", options.post_validation);
  return sets;
}

JobConfig job_from_options(const PlanOptions& options) {
  if (!options.sets.empty()) throw_error("--set changes a job file: give one with --config");
  JobConfig job;
  job.parallel.pp = options.pp.value_or(4);
  job.batch.microbatches = options.microbatches.value_or(2 * job.parallel.pp);
  job.batch.global_size = job.batch.microbatches;
  PipelineConfig& pipeline = job.pipeline;
  if (!options.schedule.empty()) pipeline.schedule = options.schedule;
  pipeline.chunks = options.chunks.value_or(0);
  pipeline.group = options.group.value_or(0);
  pipeline.memory_limit = options.memory_limit.value_or(0);
  pipeline.less_memory = options.less_memory;
  pipeline.overlap_p2p = options.overlap_p2p;
  pipeline.overlap_b_f = options.overlap_b_f;
  pipeline.split_backward = options.split_backward;
  pipeline.post_validation = options.post_validation;
  job.memory_gib = options.memory_gib;
  if (options.duplex) pipeline.duplex = true;
  return job;
}

/// The links of the command line, or those of the job, as the pipeline of its first replica sees them.
void set_links(const PlanOptions& options, const JobConfig& job, CostModel& costs) {
  costs.link = {options.latency_ms, options.bandwidth_gbps};
  if (costs.link.latency_ms == 0 && costs.link.bandwidth_gbps == 0) set_job_links(job, costs);
}

}  // namespace

LoadedConfig load_plan_config(const PlanOptions& options) {
  return load_config(options.config, sets_from_options(options), schedule_rules());
}

JobConfig plan_job(const PlanOptions& options) {
  return options.config.empty() ? job_from_options(options) : load_plan_config(options).job;
}

CostModel plan_costs(const PlanOptions& options, const JobConfig& job, const PlanModel& model,
                     const Placement& placement, const Schedule* schedule) {
  std::optional<MemoryModel> known;
  if (model.known()) known = schedule != nullptr ? model.memory_model(*schedule) : model.memory_model(placement);
  const std::vector<int> layers = known ? known->layer_counts : layers_by_stage(options, job, placement);
  const bool per_layer = !options.layers.empty();
  const double mean =
      layers.empty() ? 1 : std::accumulate(layers.begin(), layers.end(), 0.0) / static_cast<double>(layers.size());
  CostModel costs = known ? model_costs(*known, model.work(*known)) : CostModel();
  costs.stages.resize(static_cast<std::size_t>(placement.num_stages()));
  for (int s = 0; s < placement.num_stages(); ++s) {
    const double layers_here = layers.empty() ? 1 : layers[static_cast<std::size_t>(s)];
    const double scale = per_layer ? layers_here : layers_here / mean;
    StageCosts& stage = costs.stages[static_cast<std::size_t>(s)];
    if (options.gives_times() || !model.known()) {
      stage.forward_ms = options.forward_ms.value_or(1) * scale;
      stage.dx_ms = options.dx_ms.value_or(1) * scale;
      stage.dw_ms = options.dw_ms.value_or(1) * scale;
    }
    if (options.activation_mib) stage.activation_bytes = *options.activation_mib * kMib * scale;
    if (options.state_mib) stage.state_bytes = *options.state_mib * kMib * scale;
    if (options.output_mib) stage.output_bytes = *options.output_mib * kMib;
  }
  if (options.gives_times() && known && costs.encoder_forward_ms > 0) {
    // What the model knows of the encoder is in mean stages.
    costs.encoder_forward_ms *= options.forward_ms.value_or(1);
    costs.encoder_dx_ms *= options.dx_ms.value_or(1);
    costs.encoder_dw_ms *= options.dw_ms.value_or(1);
  }
  costs.p2p_ms = options.p2p_ms;
  set_links(options, job, costs);
  if (known && (options.gives_times() || !job.profile.empty())) add_exchanges(*known, costs);
  costs.overlap_factor = options.pair_factor;
  costs.offload_gbps = options.offload_gbps > 0 ? options.offload_gbps : job.swap.bandwidth_gbps;
  return costs;
}

CostModel comparable_costs(const PlanOptions& options, const JobConfig& job, const PlanModel& model,
                           const Placement& placement) {
  CostModel costs = plan_costs(options, job, model, placement);
  if (options.gives_times() || !model.known() || !job.profile.empty()) return costs;
  scale_times(costs, placement.pp() / whole_forward_ms(costs));
  return costs;
}

}  // namespace ppctl
