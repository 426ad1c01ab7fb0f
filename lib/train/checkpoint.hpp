#pragma once

#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arch/model_spec.hpp"
#include "base/clock.hpp"
#include "comm/transport.hpp"
#include "config/job_config.hpp"
#include "train/checkpoint_manifest.hpp"
#include "train/checkpoint_writer.hpp"
#include "train/state_tensors.hpp"

namespace ppctl {

/// Checkpoints of a job: <folder>/step-00000100/ with a safetensors file of each rank that holds rows of the state
/// which no rank before it holds (so replicas, copies of a stage and tied weights are written once), the model's
/// config.json, and manifest.json, which lists every file with its size, hash and rows. Nothing is gathered. A folder
/// is written aside, synced and renamed once it is whole: one with this name is always complete.
///
/// A save with checkpoint.asynchronous has three parts: save() starts a thread on each rank that copies and writes;
/// once all ranks are ready(), advance() collects what was written and rank 0 starts a thread that writes the manifest
/// and renames; once all are ready() again, advance() ends it. All methods are called by the training thread.
class CheckpointStore {
 public:
  /// `model`, with the dtype that config.json shall name. Keeps references. COLLECTIVE over the world.
  CheckpointStore(const JobConfig& job, const ModelSpec& model, at::ScalarType dtype, AdamW& optimizer, Group& world,
                  Deadline deadline);
  ~CheckpointStore();

  /// Told on every rank of each checkpoint that is complete: "saved FOLDER ...".
  void on_saved(std::function<void(const std::string&)> say) { say_ = std::move(say); }

  /// Starts a save; ends the one before it first. COLLECTIVE over the world. Any fault of a save, in a thread or not,
  /// is an AgreedError of whichever COLLECTIVE method comes next; what was written of it is removed, older
  /// checkpoints stay as they are.
  void save(const TrainState& state, Deadline deadline);
  /// Waits until the state may change. Call before every update of the optimizer. Not collective.
  void before_update(Deadline deadline);
  /// Whether this rank has done its part of what goes on. Not collective.
  bool ready() const;
  /// Goes one part on. COLLECTIVE over the world; call when every rank is ready().
  void advance(Deadline deadline);
  /// Ends the save that is under way, if there is one. COLLECTIVE over the world.
  void finish(Deadline deadline);
  /// Milliseconds that this rank's training waited for saves since the last call.
  double take_stall_ms();

  struct Resumed {
    TrainState state;
    std::string folder;
    std::vector<std::string> notes;  ///< notes_on_resuming()
  };
  /// Loads the newest complete checkpoint, if there is one, whatever division of the state wrote it. COLLECTIVE over
  /// the world: each rank reads its own rows, and every file's hash is checked by one of them. Throws AgreedError that
  /// names the file or key where it is damaged or of another model; an older one is never taken instead.
  std::optional<Resumed> resume(Deadline deadline);

 private:
  enum class Phase { kIdle, kWriting, kPublishing };

  void choose_written(Deadline deadline);
  std::vector<StateTensor> written_tensors() const;
  void collect(Deadline deadline);
  std::string publish(std::vector<SavedFile> files) const;
  std::vector<std::string> agree_or_give_up(Deadline deadline, const std::function<std::string()>& work);
  Resumed load(const std::string& folder);

  const JobConfig& job_;
  const ModelSpec& model_;
  at::ScalarType dtype_;
  AdamW& optimizer_;
  Group& world_;
  std::function<void(const std::string&)> say_;
  std::vector<std::size_t> written_;  ///< indices into state_tensors() of what this rank writes

  Phase phase_ = Phase::kIdle;
  TrainState state_;    ///< of the save under way
  std::string folder_;  ///< its final name
  Nanoseconds started_ = 0;
  Nanoseconds stall_ = 0;       ///< since take_stall_ms()
  Nanoseconds save_stall_ = 0;  ///< of the save under way
  std::unique_ptr<CheckpointWriter> writer_;
  std::future<std::string> published_;  ///< on rank 0
};

}  // namespace ppctl
