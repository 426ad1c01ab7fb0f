#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arch/job_model.hpp"
#include "config/job_config.hpp"
#include "model/family.hpp"
#include "runtime/pipeline_schedule.hpp"
#include "shard/group_shard.hpp"
#include "simulate/model_plan.hpp"
#include "topology/mesh.hpp"
#include "topology/placement.hpp"

namespace ppctl {

/// What a job computes with (precision.param, or model.dtype where that is left open).
at::ScalarType compute_dtype(const JobConfig& job);
/// A dtype by the name that a job has for it. Throws Error.
at::ScalarType dtype_named(const std::string& name);

/// One rank's part of the model: its stages, and its shards of their parameters, filled with their first values.
class RankModel {
 public:
  /// Builds and fills the stages of a rank at `place`; reads its own layers only. Not collective. Throws Error.
  RankModel(const JobConfig& job, const ModelSpec& spec, const Placement& placement, const MeshCoordinates& place,
            const ModelPlan& plan);

  const std::vector<StagePtr>& stages() const { return stages_; }  ///< by chunk
  /// Shards of all stages' groups, by chunk, then those of the encoder.
  std::vector<GroupShard*> shards() const;
  /// The same by stage.
  std::vector<StageShards> shards_by_stage() const;
  /// The part of the encoder that MPipe runs outside of the stages; null: none.
  const std::shared_ptr<StageModule>& encoder() const { return encoder_; }
  std::vector<GroupShard*> encoder_shards() const;
  bool has_last_stage() const;
  bool reads_tokens() const { return reads_tokens_; }  ///< whether a stage of this rank does
  bool reads_images() const { return reads_images_; }
  /// Zero gradients of what is whole here; frees those of shards.
  void clear_grads();

 private:
  std::vector<StagePtr> stages_;
  bool reads_tokens_ = false;
  bool reads_images_ = false;
  std::vector<std::vector<std::unique_ptr<GroupShard>>> shards_;  ///< by chunk
  std::shared_ptr<StageModule> encoder_;
  std::vector<std::unique_ptr<GroupShard>> encoder_shards_;
};

}  // namespace ppctl
