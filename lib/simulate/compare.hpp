#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "schedule/pass.hpp"
#include "simulate/cost_model.hpp"

namespace ppctl {

/// Which schedules to lay side by side, and for what job.
struct CompareRequest {
  int pp = 1;
  int num_microbatches = 1;
  CostModel costs;     ///< of any cut of the model; resplit_costs gives each candidate its own stages
  PassOptions passes;  ///< applied to every candidate; one that a pass refuses is listed with the reason
  /// Where the passes look at a candidate's own cut, as MPipe's does: instead of `passes`. May throw Error.
  std::function<PassOptions(const Placement&)> passes_of;
  std::vector<std::string> schedules;  ///< names; empty: all generators
  std::vector<int> chunks;             ///< tried where a schedule leaves the choice; empty: its default
  double memory_limit = 0;             ///< auto: as ScheduleSpec::memory_limit
  /// Where the model is known: the costs of a candidate's own cut, instead of resplit_costs. May throw Error.
  std::function<CostModel(const Placement&)> costs_of;
  /// Where the model is known: bytes of the worst rank under a lowered schedule, instead of the simulator's sum.
  std::function<double(const Schedule&)> peak_bytes_of;
};

/// One candidate: simulated, or refused with a reason.
struct ComparisonRow {
  std::string schedule;
  int chunks = 0;
  std::optional<std::string> refused;  ///< one line; everything below is unset then
  double step_ms = 0;                  ///< wall time of a step
  double span_ms = 0;
  double bubble_wall = 0;  ///< fractions
  double bubble_span = 0;
  int peak_chunks = 0;           ///< on the worst rank
  double peak_microbatches = 0;  ///< peak_chunks in microbatches of a rank's whole part of the model
  double peak_bytes = 0;         ///< on the worst rank
};

/// Every candidate, the fastest first and the refused ones last. Throws Error for a name that no generator has.
std::vector<ComparisonRow> compare_schedules(const CompareRequest& request);

/// The fastest candidate whose worst rank stays within `memory_bytes`; on a tie in time (to 0.01 %), the one that needs
/// least memory. Throws Error that says what the leanest candidate would need.
ComparisonRow best_fit(const std::vector<ComparisonRow>& rows, double memory_bytes);

/// An aligned table. `memory_bytes` > 0 marks what does not fit.
std::string comparison_text(const std::vector<ComparisonRow>& rows, double memory_bytes = 0);
/// A JSON array of objects with the fields of ComparisonRow.
std::string comparison_json(const std::vector<ComparisonRow>& rows);

}  // namespace ppctl
