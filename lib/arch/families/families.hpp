#pragma once

#include <span>
#include <string_view>

#include "arch/blueprint.hpp"
#include "arch/config_reader.hpp"
#include "arch/model_spec.hpp"

namespace ppctl {

/// A model family: how its config.json is read, what its parts are made of and what they are called in a checkpoint. A
/// new family is one file that defines one of these, and one line in registry.cpp.
struct Family {
  std::string_view name;  ///< model_type
  /// Every key that config.json of this family may have and that means something to a trainer.
  std::span<const std::string_view> keys;
  void (*parse)(const ConfigReader& config, ModelSpec& spec);
  TokenEmbeddingConfig (*embedding)(const ModelSpec& spec);
  DecoderLayerConfig (*layer)(const ModelSpec& spec, std::int64_t index);
  LanguageHeadConfig (*head)(const ModelSpec& spec);
};

/// Null where there is no family of that name.
const Family* find_family(std::string_view name);
/// The family of a parsed model.
const Family& family_of(const ModelSpec& spec);

// The families, one file each.
const Family& llama_family();
const Family& qwen3_family();
const Family& gpt2_family();
const Family& mixtral_family();
const Family& qwen3_moe_family();
const Family& llava_family();

}  // namespace ppctl
