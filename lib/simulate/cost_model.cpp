#include "simulate/cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/error.hpp"

namespace ppctl {
namespace {

void check_cost(double value, std::string_view what) {
  if (!(std::isfinite(value) && value >= 0)) {
    throw_error("{} is {}; a cost must be a finite number that is not negative", what, value);
  }
}

void check_link(const LinkCosts& link) {
  check_cost(link.latency_ms, "a link's latency");
  check_cost(link.bandwidth_gbps, "a link's bandwidth");
}

void check_stage(const StageCosts& stage) {
  check_cost(stage.forward_ms, "a stage's forward time");
  check_cost(stage.dx_ms, "a stage's dx time");
  check_cost(stage.dw_ms, "a stage's dw time");
  check_cost(stage.forward_exchange_ms, "a stage's forward exchange time");
  check_cost(stage.backward_exchange_ms, "a stage's backward exchange time");
  check_cost(stage.exchanges, "a stage's number of exchanges");
  check_cost(stage.all_gather_ms, "a stage's all-gather time");
  check_cost(stage.reduce_scatter_ms, "a stage's reduce-scatter time");
  check_cost(stage.activation_bytes, "a stage's activation size");
  check_cost(stage.unswapped_bytes, "what an offload leaves in memory");
  check_cost(stage.output_bytes, "a stage's output size");
  check_cost(stage.state_bytes, "a stage's state size");
  if (stage.unswapped_bytes > stage.activation_bytes) {
    throw_error("an offload leaves more in memory than a stage's activations");
  }
  if (stage.forward_exchange_ms > stage.forward_ms || stage.backward_exchange_ms > stage.dx_ms + stage.dw_ms) {
    throw_error("a stage's exchange takes longer than the forward or backward that it is part of");
  }
}

/// The times and sizes that are proportional to the work of a stage.
constexpr double StageCosts::* kWork[] = {&StageCosts::forward_ms,
                                          &StageCosts::dx_ms,
                                          &StageCosts::dw_ms,
                                          &StageCosts::forward_exchange_ms,
                                          &StageCosts::backward_exchange_ms,
                                          &StageCosts::exchanges,
                                          &StageCosts::all_gather_ms,
                                          &StageCosts::reduce_scatter_ms,
                                          &StageCosts::activation_bytes,
                                          &StageCosts::unswapped_bytes,
                                          &StageCosts::state_bytes};

StageCosts scaled(StageCosts stage, double factor) {
  for (double StageCosts::* value : kWork) stage.*value *= factor;
  return stage;
}

/// Appends the work of the stage `from`, whose output becomes the sum's.
void add_work(StageCosts& to, const StageCosts& from) {
  for (double StageCosts::* value : kWork) to.*value += from.*value;
  to.output_bytes = from.output_bytes;
}

}  // namespace

CostModel uniform_costs(int num_stages, const StageCosts& stage, double p2p_ms) {
  CostModel costs;
  costs.stages.assign(static_cast<std::size_t>(num_stages), stage);
  costs.p2p_ms = p2p_ms;
  return costs;
}

CostModel resplit_costs(const CostModel& costs, int num_stages) {
  PPCTL_CHECK(!costs.stages.empty() && num_stages >= 1, "{} stages from {}", num_stages, costs.stages.size());
  CostModel result = costs;
  result.stages.clear();
  const auto old_count = static_cast<std::int64_t>(costs.stages.size());
  if (num_stages < old_count) {
    result.stages.assign(static_cast<std::size_t>(num_stages), scaled(StageCosts(), 0));
    for (std::int64_t old = 0; old < old_count; ++old) {
      add_work(result.stages[static_cast<std::size_t>(old * num_stages / old_count)],
               costs.stages[static_cast<std::size_t>(old)]);
    }
    return result;
  }
  const auto origin = [&](int stage) { return static_cast<std::size_t>(stage * old_count / num_stages); };
  // An old stage is divided evenly among the new ones that fall on it.
  std::vector<int> heirs(costs.stages.size(), 0);
  for (int stage = 0; stage < num_stages; ++stage) ++heirs[origin(stage)];
  for (int stage = 0; stage < num_stages; ++stage) {
    result.stages.push_back(scaled(costs.stages[origin(stage)], 1.0 / heirs[origin(stage)]));
  }
  return result;
}

double whole_forward_ms(const CostModel& costs) {
  double forward = costs.encoder_forward_ms;
  for (const StageCosts& stage : costs.stages) forward += stage.forward_ms;
  return forward;
}

void scale_times(CostModel& costs, double factor) {
  for (StageCosts& stage : costs.stages) {
    for (double* time : {&stage.forward_ms, &stage.dx_ms, &stage.dw_ms}) *time *= factor;
  }
  costs.encoder_forward_ms *= factor;
  costs.encoder_dx_ms *= factor;
  costs.encoder_dw_ms *= factor;
}

std::vector<ChunkCosts> chunk_costs(const CostModel& costs) {
  std::vector<ChunkCosts> result;
  for (const StageCosts& stage : costs.stages) {
    result.push_back({stage.forward_ms, stage.dx_ms, stage.dw_ms, costs.p2p_ms + costs.link.latency_ms});
  }
  return result;
}

ChunkCosts mean_chunk_costs(const CostModel& costs) {
  ChunkCosts mean{0, 0, 0, costs.p2p_ms + costs.link.latency_ms};
  const auto count = static_cast<double>(costs.stages.size());
  for (const StageCosts& stage : costs.stages) {
    mean.forward += stage.forward_ms / count;
    mean.dx += stage.dx_ms / count;
    mean.dw += stage.dw_ms / count;
  }
  return mean;
}

void check_costs(const CostModel& costs, const Placement& placement) {
  if (costs.stages.size() != static_cast<std::size_t>(placement.num_stages())) {
    throw_error("costs are given for {} stages, but the schedule has {}", costs.stages.size(), placement.num_stages());
  }
  std::for_each(costs.stages.begin(), costs.stages.end(), check_stage);
  check_link(costs.link);
  for (const LinkOverride& link : costs.link_overrides) check_link(link.costs);
  check_cost(costs.p2p_ms, "p2p time");
  check_cost(costs.overlap_factor, "the overlap factor");
  check_cost(costs.offload_gbps, "the offload bandwidth");
  check_cost(costs.load_data_ms, "the time of loading data");
  check_cost(costs.encoder_forward_ms, "the encoder's forward time");
  check_cost(costs.encoder_dx_ms, "the encoder's dx time");
  check_cost(costs.encoder_dw_ms, "the encoder's dw time");
}

}  // namespace ppctl
