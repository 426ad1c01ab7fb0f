#pragma once

#include <string>
#include <vector>

#include "plan_inputs.hpp"
#include "simulate/compare.hpp"

namespace ppctl {

/// Other ways to run a job's model: how its layers are split, what is recomputed, what is swapped, and where the
/// encoder of a multimodal one runs.
struct MemoryMix {
  JobConfig job;
  std::string layers;     ///< "uniform", "auto"
  std::string recompute;  ///< as YAML: "none", "full", "{attention: true}"
  bool swaps = false;
};

/// One mix with one schedule.
struct MixRow {
  MemoryMix mix;
  ComparisonRow row;
};

/// Every schedule with every mix that can run, the fastest first; of those that take as long (to 0.01 %), the one that
/// recomputes and swaps less, then the one that needs less memory. REQUIRES: the job's model is known.
std::vector<MixRow> search_mixes(const PlanOptions& options, const JobConfig& job);

/// The first that stays within `bytes` a rank. Throws Error that says what the leanest would need.
const MixRow& cheapest_fit(const std::vector<MixRow>& rows, double bytes);

/// A table of the best few that fit: of each schedule those mixes that nothing as fast makes leaner.
std::string search_text(const std::vector<MixRow>& rows, double bytes);
/// What to write into the job file.
std::string mix_yaml(const MixRow& row);

}  // namespace ppctl
