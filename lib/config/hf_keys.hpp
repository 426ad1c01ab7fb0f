#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "config/map_reader.hpp"

namespace ppctl {

/// The families of models that ppctl trains, under the names of Hugging Face's model_type.
std::span<const std::string_view> model_families();

/// The config.json keys that a family knows, by their Hugging Face names; those of all families where `family` is none
/// of them.
std::vector<std::string_view> hf_key_names(std::string_view family);

/// Reads the keys of `model` that are config.json keys of the family: checks each one's type, stores it as JSON text in
/// model.hf, and notes the number of layers. Keys that the family does not know are left to model.finish().
void read_hf_keys(MapReader& model, ModelConfig& config);

}  // namespace ppctl
