#include "simulate/model_plan.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "arch/job_model.hpp"
#include "arch/model_work.hpp"
#include "base/error.hpp"
#include "simulate/memory_report.hpp"

namespace ppctl {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

struct FullestRank {
  PipelineRank rank;
  std::int64_t bytes = 0;
};

FullestRank fullest_rank(const JobConfig& job, const ModelSpec& spec, const Schedule& schedule, const ModelPlan& plan) {
  const std::vector<RankMemory> ranks = plan_memory(schedule, memory_model(job, spec, plan));
  const auto most = std::max_element(ranks.begin(), ranks.end(),
                                     [](const RankMemory& a, const RankMemory& b) { return a.total() < b.total(); });
  return {PipelineRank(static_cast<int>(most - ranks.begin())), most->total()};
}

/// A split by cost whose stages are made shorter, one layer at a time, on ranks that need too much: exact where a rank
/// has one stage, since a shorter stage never needs more.
std::vector<int> split_within_memory(const JobConfig& job, const ModelSpec& spec, const Schedule& schedule) {
  const auto num_stages = static_cast<std::size_t>(schedule.num_stages());
  const std::int64_t num_layers = spec.num_layers - spec.first_stage_layer();
  std::vector<int> most(num_stages, static_cast<int>(num_layers));
  FullestRank fullest;
  while (std::accumulate(most.begin(), most.end(), std::int64_t{0}) >= num_layers) {
    ModelPlan plan;
    plan.layer_counts = split_layers(job, spec, schedule.placement, most);
    plan.activations = layer_activations(job, plan.layer_counts);
    fullest = fullest_rank(job, spec, schedule, plan);
    if (static_cast<double>(fullest.bytes) <= job.memory_gib * kGib) return plan.layer_counts;
    int longest = -1;
    for (const StageId stage : schedule.placement.stages_of(fullest.rank)) {
      const int count = plan.layer_counts[static_cast<std::size_t>(stage.value)];
      if (longest < 0 || count > plan.layer_counts[static_cast<std::size_t>(longest)]) longest = stage.value;
    }
    const int shorter = plan.layer_counts[static_cast<std::size_t>(longest)] - 1;
    if (shorter == 0) break;
    most[static_cast<std::size_t>(longest)] = shorter;
  }
  throw_error(
      "pipeline.layers: auto finds no split of {} layers on {} stages that fits in memory_gib {}: rank {} would need "
      "{}; `ppctl plan` says what does fit",
      num_layers, num_stages, job.memory_gib, fullest.rank, bytes_text(static_cast<double>(fullest.bytes)));
}

/// Leaves the swap to the first `count` layers of each stage.
std::vector<LayerActivations> swapping_first(const ModelPlan& plan, int count) {
  std::vector<LayerActivations> result = plan.activations;
  std::size_t layer = 0;
  for (const int layers : plan.layer_counts) {
    for (int i = 0; i < layers; ++i, ++layer) result[layer].swapped = i < count;
  }
  return result;
}

void swap_no_more_than_needed(const JobConfig& job, const ModelSpec& spec, const Schedule& schedule, ModelPlan& plan) {
  const int longest = *std::max_element(plan.layer_counts.begin(), plan.layer_counts.end());
  ModelPlan candidate = plan;
  for (int count = 0; count < longest; ++count) {
    candidate.activations = swapping_first(plan, count);
    if (static_cast<double>(fullest_rank(job, spec, schedule, candidate).bytes) > job.memory_gib * kGib) continue;
    plan = std::move(candidate);
    return;
  }
}

}  // namespace

ModelPlan model_plan(const JobConfig& job, const ModelSpec& spec, const Schedule& schedule) {
  ModelPlan plan;
  const bool limited = job.memory_gib > 0;
  plan.layer_counts = limited && job.pipeline.layers == "auto" ? split_within_memory(job, spec, schedule)
                                                               : layers_per_stage(job, spec, schedule.placement);
  plan.activations = layer_activations(job, plan.layer_counts);
  if (limited && job.swap.layers == "auto") swap_no_more_than_needed(job, spec, schedule, plan);
  return plan;
}

MemoryModel memory_model(const JobConfig& job, const ModelSpec& spec, ModelPlan plan) {
  MemoryModel model = memory_model(job, spec, std::move(plan.layer_counts));
  model.activations = std::move(plan.activations);
  return model;
}

}  // namespace ppctl
