#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "arch/blueprint.hpp"
#include "arch/model_spec.hpp"
#include "arch/stage_range.hpp"

namespace ppctl {

/// The families that can be built, by the model_type of their config.json.
std::vector<std::string> family_names();

/// Reads a config.json. `origin` is what messages call it (its path). `overrides` replace or add keys: values are JSON
/// text ("64", "true", "\"silu\"", "null"); what is no JSON counts as a string. Both spellings of newer and older files
/// are read (rope_parameters, or rope_theta and rope_scaling). Throws Error that names origin and key.
ModelSpec parse_model(const std::string& config_json, const std::string& origin,
                      const std::map<std::string, std::string>& overrides = {});
/// A model given by family and keys alone. A key that the family's config.json does not have is an Error too: it would
/// be a spelling mistake.
ModelSpec parse_model_keys(const std::string& family, const std::map<std::string, std::string>& keys,
                           const std::string& origin = "model");
/// Reads config.json of a Hugging Face folder. See parse_model().
ModelSpec read_hf_config(const std::string& folder, const std::map<std::string, std::string>& overrides = {});

/// The parts of a model. REQUIRES: 0 <= index < spec.num_layers.
TokenEmbeddingConfig embedding_config(const ModelSpec& spec);
DecoderLayerConfig layer_config(const ModelSpec& spec, std::int64_t index);
/// The same as a layer of a stage: with the experts that it holds, and with what it keeps for its backward. REQUIRES:
/// the number of experts is a multiple of range.experts.count.
DecoderLayerConfig layer_config(const ModelSpec& spec, const StageRange& range, std::int64_t index);
LanguageHeadConfig head_config(const ModelSpec& spec);
AuxLossConfig aux_loss_config(const ModelSpec& spec);

}  // namespace ppctl
