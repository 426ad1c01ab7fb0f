#pragma once

#include <optional>
#include <string>
#include <vector>

#include "arch/model_spec.hpp"
#include "arch/model_work.hpp"
#include "plan_inputs.hpp"
#include "schedule/schedule.hpp"
#include "simulate/rank_memory.hpp"

namespace ppctl {

/// The job's model, as far as a plan can know it: a job may name a folder that is not there yet, and options alone name
/// no model.
class PlanModel {
 public:
  /// Throws Error where the model can be read but not be trained as the job says.
  PlanModel(const PlanOptions& options, const JobConfig& job);

  bool known() const { return spec_.has_value(); }
  /// REQUIRES: known().
  const ModelSpec& spec() const { return *spec_; }
  /// Why it is not known: one line, empty where nobody named one.
  const std::string& reason() const { return reason_; }

  /// How the job's ranks hold it, its layers split as `train` does. REQUIRES: known(). Throws Error where the layers do
  /// not fit.
  MemoryModel memory_model(const Placement& placement) const;
  /// The same where the job's memory_gib matters to the split. Where nothing fits in that, as without it.
  MemoryModel memory_model(const Schedule& schedule) const;
  /// What the parts of the model do, as held by `model`. REQUIRES: known(). Throws Error where a profile does not fit.
  ModelWork work(const MemoryModel& model) const;
  /// What each rank needs, or nothing where the model is not known.
  std::vector<RankMemory> memory(const Schedule& schedule) const;

 private:
  const JobConfig& job_;
  std::optional<ModelSpec> spec_;
  std::string reason_;
};

}  // namespace ppctl
