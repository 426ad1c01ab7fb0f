#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/load.hpp"
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

  double forward_ms = 1;
  double dx_ms = 1;
  double dw_ms = 1;
  double p2p_ms = 0;
  double latency_ms = 0;
  double bandwidth_gbps = 0;
  double pair_factor = 1;
  double optimizer_ms = 0;    ///< of one rank
  double activation_mib = 0;  ///< of one stage and microbatch (with `layers`, of one layer)
  double output_mib = 0;      ///< a tensor between stages
  double state_mib = 0;       ///< of one stage (or layer): parameters, gradients, optimizer

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

/// What each stage of the placement costs. Throws Error where the layers do not fit the stages.
CostModel plan_costs(const PlanOptions& options, const JobConfig& job, const Placement& placement);
/// The placement of the job's schedule. REQUIRES: the schedule is a generator's. Throws Error for an unknown one.
Placement plan_placement(const JobConfig& job);

}  // namespace ppctl
