#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "comm/transport.hpp"
#include "config/job_config.hpp"
#include "train/optimizer.hpp"

namespace ppctl {

/// How a checkpoint's tensors are divided into files.
struct CheckpointLayout {
  int pp = 1;
  int dp_shard = 1;
  std::vector<std::vector<int>> stages;  ///< by pipeline rank: its stages
  std::vector<int> layers;               ///< by stage

  friend bool operator==(const CheckpointLayout&, const CheckpointLayout&) = default;
  /// "pp 2, stages [[0], [1]], layers [4, 4]".
  std::string to_text() const;
};

/// Where a run was.
struct TrainState {
  std::int64_t step = 0;     ///< steps that were made
  std::int64_t samples = 0;  ///< read so far: the data position
  std::int64_t tokens = 0;   ///< trained on so far
};

/// Checkpoints of a job: <folder>/step-00000100/ with a safetensors file for each pipeline rank (weights under their
/// Hugging Face names, the moments as "optimizer.exp_avg.NAME" and "optimizer.exp_avg_sq.NAME") and manifest.json,
/// which lists every file with its tensors, their shapes and offsets. A folder is written aside, synced and renamed
/// once it is whole, so that one with this name is always complete.
class CheckpointStore {
 public:
  /// `job` and `world` must outlive the store. `writes`: whether this rank writes the file of its pipeline rank; of
  /// several replicas one does.
  CheckpointStore(const JobConfig& job, CheckpointLayout layout, Group& world, int pipeline_rank, bool writes);

  /// COLLECTIVE over the world. Removes all but the newest `keep`. Returns the folder.
  std::string save(AdamW& optimizer, const TrainState& state, Deadline deadline);

  /// COLLECTIVE over the world. Loads the newest complete checkpoint, if there is one. Throws Error where its layout
  /// is another, or a file does not hold what it must.
  std::optional<TrainState> resume(AdamW& optimizer, Deadline deadline);

 private:
  std::string write_rank_file(const std::string& folder, AdamW& optimizer) const;
  void write_manifest(const std::string& folder, const TrainState& state, const std::vector<std::string>& files) const;
  void load(const std::string& folder, const std::map<std::string, std::string>& file_of, AdamW& optimizer) const;
  void remove_old() const;
  std::string rank_file() const;

  const JobConfig& job_;
  CheckpointLayout layout_;
  Group& world_;
  int pipeline_rank_;
  bool writes_;
};

/// The step folders of complete checkpoints, oldest first.
std::vector<std::string> complete_checkpoints(const std::string& folder);

}  // namespace ppctl
