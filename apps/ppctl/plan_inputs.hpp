#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/load.hpp"
#include "schedule/schedule.hpp"
#include "simulate/cost_model.hpp"

namespace ppctl {

/// The options of `ppctl plan`, as typed. Times are milliseconds of one stage and microbatch; with `layers`, of one
/// layer.
struct PlanOptions {
  std::string config;
  std::vector<std::string> sets;
  bool show_config = false;

  std::string schedule;
  std::optional<int> pp;
  std::optional<int> chunks;
  std::optional<int> microbatches;
  std::optional<int> group;
  std::optional<double> memory_limit;
  std::string layers;  ///< "40" or "2,3,3,2"
  bool less_memory = false;
  bool overlap_p2p = false;
  bool overlap_b_f = false;
  bool duplex = false;
  bool split_backward = false;
  bool post_validation = false;

  // Unset: as the job's model computes, sends and keeps; without a model 1 ms, and no bytes.
  std::optional<double> forward_ms;
  std::optional<double> dx_ms;
  std::optional<double> dw_ms;
  double p2p_ms = 0;
  double latency_ms = 0;
  double bandwidth_gbps = 0;
  double offload_gbps = 0;  ///< of a swap, each way; 0: the job's
  double pair_factor = 1;
  double optimizer_ms = 0;               ///< of one rank
  std::optional<double> activation_mib;  ///< of one stage and microbatch (with `layers`, of one layer)
  std::optional<double> output_mib;      ///< a tensor between stages
  std::optional<double> state_mib;       ///< of one stage (or layer): parameters, gradients, optimizer

  bool gives_times() const { return forward_ms || dx_ms || dw_ms; }
  bool gives_memory() const { return activation_mib || state_mib; }

  std::string format = "text";
  bool compare = false;
  bool choose = false;  ///< --auto
  double memory_gib = 0;
  std::string check;
  std::string save;
  std::string zero_bubble_table;
};

/// The job that the options describe: the job file with them on top, or the options alone. Throws Error.
JobConfig plan_job(const PlanOptions& options);
/// The job file, with what it needs for --show-config. Throws ConfigError.
LoadedConfig load_plan_config(const PlanOptions& options);

class PlanModel;

/// What each stage of the placement costs: as the options say, else as the model computes. Throws Error where the
/// layers do not fit the stages. With `schedule`: of the split for it, which may look at memory.
CostModel plan_costs(const PlanOptions& options, const JobConfig& job, const PlanModel& model,
                     const Placement& placement, const Schedule* schedule = nullptr);

/// The same for placements that are laid side by side: relative times have one unit for all of them, the mean forward
/// of what a rank holds.
CostModel comparable_costs(const PlanOptions& options, const JobConfig& job, const PlanModel& model,
                           const Placement& placement);

}  // namespace ppctl
