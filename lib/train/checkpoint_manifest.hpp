#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/job_config.hpp"

namespace ppctl {

/// Where a run was.
struct TrainState {
  std::int64_t step = 0;     ///< steps that were made
  std::int64_t samples = 0;  ///< read so far: the data position
  std::int64_t tokens = 0;   ///< trained on so far
};

/// Rows row_begin .. row_end - 1 of dim 0 of a tensor of the training state, and where a file has them.
struct SavedRows {
  std::string name;                 ///< as StateTensor's
  std::string dtype;                ///< as in safetensors: "F32", "BF16"
  std::vector<std::int64_t> shape;  ///< of the whole tensor
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
  std::uint64_t offset = 0;  ///< bytes from the start of the file
  std::uint64_t num_bytes = 0;
};

/// One file of a checkpoint.
struct SavedFile {
  std::string name;  ///< in the checkpoint's folder
  std::uint64_t num_bytes = 0;
  std::string hash;                ///< content_hash()
  std::vector<SavedRows> tensors;  ///< empty for config.json
};

/// What manifest.json says: everything but the tensors themselves.
struct CheckpointManifest {
  TrainState state;
  std::string job;         ///< its name
  std::string layout;      ///< how the run was divided, for people: nothing depends on it
  std::string job_config;  ///< the job with its defaults, as ppctl --show-config prints it
  /// What the data position and all random numbers are functions of, with the position and the step.
  std::uint64_t seed = 0;
  std::int64_t samples_per_step = 0;
  std::int64_t sequence_length = 0;
  std::string data_kind;
  std::string data_path;
  std::string data_order;
  std::vector<SavedFile> files;
};

/// What a manifest says of a job and its state; no files yet.
CheckpointManifest manifest_of_job(const JobConfig& job, const TrainState& state);

/// JSON with a hash over itself, so that no number in it can change unnoticed.
std::string to_json(const CheckpointManifest& manifest);
/// One file's entry, for the ranks to tell each other.
std::string to_json(const SavedFile& file);
SavedFile saved_file_of_json(const std::string& json);

/// Reads and checks <folder>/manifest.json. Throws Error that names the file: where it cannot be read, is no manifest
/// of ppctl, is of another version, or was changed after it was written.
CheckpointManifest read_manifest(const std::string& folder);

}  // namespace ppctl
