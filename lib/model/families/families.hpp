#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "model/config_reader.hpp"
#include "model/decoder_stage.hpp"
#include "model/layers/rotary_embedding.hpp"
#include "model/model_spec.hpp"

namespace ppctl {

/// What stages of one model share while they are built.
struct BuildContext {
  const ModelSpec& spec;
  at::ScalarType dtype;
  std::shared_ptr<const RotaryEmbedding> rope;  ///< null where the family has none
};

/// A model family: how its config.json is read, and what its parts are called in a checkpoint. A new family is one file
/// that defines one of these, and one line in registry.cpp.
struct Family {
  std::string_view name;  ///< model_type
  /// Every key that config.json of this family may have and that means something to a trainer.
  std::span<const std::string_view> keys;
  void (*parse)(const ConfigReader& config, ModelSpec& spec);
  std::unique_ptr<TokenEmbedding> (*make_embedding)(const BuildContext& context);
  std::unique_ptr<Layer> (*make_layer)(const BuildContext& context, std::int64_t index);
  std::unique_ptr<LanguageHead> (*make_head)(const BuildContext& context);
};

/// Null where there is no family of that name.
const Family* find_family(std::string_view name);
/// The family of a parsed model.
const Family& family_of(const ModelSpec& spec);

// The families, one file each.
const Family& llama_family();
const Family& qwen3_family();
const Family& gpt2_family();

}  // namespace ppctl
