#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ppctl {

/// Where a job's checkpoints lie. <folder>/step-00000100 is one that is complete: it was written as
/// <folder>/step-00000100.partial and renamed once the disk had all of it. Whatever else is there is not looked at.

inline constexpr const char* kManifestFile = "manifest.json";

/// "<folder>/step-00000100".
std::string step_folder(const std::string& folder, std::int64_t step);
/// The name that it has while it is written.
std::string partial_folder(const std::string& step_folder);

/// The step folders with a manifest, by step. Empty where `folder` does not exist.
std::vector<std::string> complete_checkpoints(const std::string& folder);
/// Whether `path` is itself such a folder, whatever its name.
bool is_checkpoint(const std::string& path);
/// The newest complete checkpoint in `path` where it holds some, else `path`: what a user means by a folder of
/// checkpoints.
std::string newest_checkpoint_or(const std::string& path);

/// Removes what saves that did not end have left. Call before a save, while none runs.
void remove_partial_checkpoints(const std::string& folder);
/// Renames a written folder into place, over one of the same step if there is one: at every moment one of the two is
/// there under the step's name. Durable when it returns.
void publish_checkpoint(const std::string& step_folder);
/// Removes all complete checkpoints but the newest `keep` up to `step`. Those of later steps go too: the run that
/// reached them was not gone on with, and they must not be taken for this run's newest.
void keep_newest_checkpoints(const std::string& folder, std::int64_t step, int keep);

}  // namespace ppctl
