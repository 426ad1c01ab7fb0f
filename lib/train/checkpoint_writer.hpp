#pragma once

#include <atomic>
#include <exception>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "train/checkpoint_manifest.hpp"
#include "train/state_tensors.hpp"

namespace ppctl {

/// Writes one rank's file of a checkpoint on a thread of its own. The thread copies the tensors first: they may change
/// once copied() has passed, long before the file is written. They do not change between two updates of the optimizer,
/// so the copy itself runs beside the next forwards and backwards.
///
/// The thread leaves the core that its rank is bound to. Destroying the object ends the writing, and leaves a file
/// that is not whole.
class CheckpointWriter {
 public:
  /// Starts. `path`: of a folder that exists. The memory of the tensors must outlive the object.
  CheckpointWriter(std::string path, std::vector<StateTensor> tensors);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  ~CheckpointWriter();

  /// Waits until the tensors may change. Throws Error when the deadline passes; faults of the thread wait for finish().
  void wait_copied(Deadline deadline);
  /// Whether finish() would not wait.
  bool done() const;
  /// Waits until the disk has the file, and describes it. Throws what the thread threw (a full disk: Error that names
  /// the file), or Error when the deadline passes. Call once.
  SavedFile finish(Deadline deadline);

 private:
  void copy();
  SavedFile write();

  std::string path_;
  std::vector<StateTensor> tensors_;
  std::vector<at::Tensor> copies_;
  std::atomic<bool> cancelled_{false};
  std::promise<void> copied_promise_;
  std::future<void> copied_;
  std::future<SavedFile> written_;
};

/// Writes the tensors at once, without a copy of them.
SavedFile write_state_file(const std::string& path, const std::vector<StateTensor>& tensors);

}  // namespace ppctl
