#pragma once

#include <cstdint>
#include <vector>

#include "arch/job_model.hpp"
#include "config/job_config.hpp"
#include "model/family.hpp"
#include "runtime/pipeline_schedule.hpp"
#include "runtime/tied_weights.hpp"
#include "topology/placement.hpp"

namespace ppctl {

/// One rank's part of the model: its stages, filled with their first values.
class RankModel {
 public:
  /// Builds and fills the stages of `rank`; reads its own layers only. Not collective. Throws Error.
  RankModel(const JobConfig& job, const ModelSpec& spec, const Placement& placement, PipelineRank rank,
            const std::vector<int>& layer_counts);

  const std::vector<StagePtr>& stages() const { return stages_; }  ///< by chunk
  /// Groups of all stages, by chunk.
  std::vector<ParameterGroup*> groups() const;
  /// What TiedWeights and StageReplicas want.
  std::vector<StageParameters> parameters() const;
  at::ScalarType dtype() const { return dtype_; }
  bool has_first_stage() const;
  bool has_last_stage() const;
  void zero_grad();

 private:
  at::ScalarType dtype_;
  std::vector<StagePtr> stages_;
};

}  // namespace ppctl
