#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "storage/safetensors.hpp"
#include "train/checkpoint_manifest.hpp"
#include "train/state_tensors.hpp"

namespace ppctl {

/// A complete checkpoint, to be read at any division of the state: rows are put together from the files that have them,
/// which are mapped, so that only what is asked for is read. Every fault is an Error that names the file.
class CheckpointReader {
 public:
  /// Reads the manifest and checks that every file is there with its size.
  explicit CheckpointReader(const std::string& folder);
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;

  const std::string& folder() const { return folder_; }
  const CheckpointManifest& manifest() const { return manifest_; }

  /// Hashes the files of which the number, modulo `parts`, is `part`: what one of several ranks checks for all.
  void check_files(int part = 0, int parts = 1);
  /// Hashes the files that hold rows of these tensors, each once.
  void check_files_of(std::span<const StateTensor> tensors);

  /// What a tensor is stored as: "F32" or "BF16". Throws Error where there is no such tensor.
  std::string dtype_of(const std::string& name) const;
  /// Names of all tensors.
  std::vector<std::string> names() const;

  /// Fills `local` of every tensor, converting between float32 and bfloat16.
  void read(std::span<const StateTensor> tensors);

 private:
  struct Place {
    const SavedFile* file;
    const SavedRows* rows;
  };

  std::string path_of(const SavedFile& file) const;
  void check_file(const SavedFile& file);
  const std::vector<Place>& places_of(const std::string& name) const;
  const std::vector<Place>& places_of(const StateTensor& tensor) const;
  void copy_rows(const Place& place, std::int64_t begin, std::int64_t end, const StateTensor& into);

  std::string folder_;
  CheckpointManifest manifest_;
  std::map<std::string, std::vector<Place>> rows_;  ///< by name; by first row
  std::map<const SavedFile*, SafetensorsFile> open_;
  std::set<const SavedFile*> checked_;
};

}  // namespace ppctl
