#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/parameters.hpp"
#include "train/checkpoint_reader.hpp"

namespace ppctl {

/// Fills `flat`, which has the layout of a group's flat buffers, with the group's values from a checkpoint, converting
/// dtypes; its moments are not read. Checks the hash of every file that is read. Throws Error.
void load_checkpoint_weights(CheckpointReader& reader, const ParameterGroup& group, const at::Tensor& flat);

/// Files of an export are about this long at most, as transformers' are.
inline constexpr std::int64_t kMaxExportBytes = 5'000'000'000;

/// Writes the weights of a checkpoint as a Hugging Face folder: config.json, and model.safetensors or several files
/// with their index; written aside, then renamed. `dtype`: what the checkpoint has where it says nothing. Every file of
/// the checkpoint is checked first. Takes the memory of one tensor. Throws Error: where the checkpoint is damaged, or
/// `out` holds something already.
void export_checkpoint(const std::string& checkpoint, const std::string& out, std::optional<at::ScalarType> dtype,
                       std::int64_t max_bytes = kMaxExportBytes);

}  // namespace ppctl
