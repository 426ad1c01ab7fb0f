#pragma once

#include <string>
#include <vector>

#include "arch/model_spec.hpp"
#include "config/job_config.hpp"
#include "train/checkpoint_manifest.hpp"

namespace ppctl {

/// Throws Error, in one line with both values of every key that differs, unless the two are the same model: what its
/// outputs depend on, beside the weights. Dropout and what initialises weights may differ.
void check_same_model(const ModelSpec& job, const ModelSpec& saved, const std::string& folder);

/// What changes for a run that goes on from a checkpoint with a job that is not the one that wrote it: a line each,
/// for the user. None of it is a fault. The division into ranks and stages, the schedule and the dtype may all differ.
std::vector<std::string> notes_on_resuming(const JobConfig& job, const CheckpointManifest& saved);

}  // namespace ppctl
