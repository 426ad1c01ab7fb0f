#include "arch/family.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "arch/families/families.hpp"
#include "base/did_you_mean.hpp"
#include "base/error.hpp"
#include "storage/mapped_file.hpp"

namespace ppctl {
namespace {

using nlohmann::json;

/// Keys that every config.json may have and that change nothing here.
constexpr std::array<std::string_view, 8> kNeutralKeys = {"model_type",     "architectures", "torch_dtype",
                                                          "dtype",          "use_cache",     "transformers_version",
                                                          "pretraining_tp", "_name_or_path"};

std::string quoted_list(const std::vector<std::string>& names) {
  std::string result;
  for (const std::string& name : names) result += (result.empty() ? "" : ", ") + name;
  return result;
}

const Family& checked_family(std::string_view name, std::string_view origin, std::string_view key) {
  const Family* family = find_family(name);
  if (family == nullptr) {
    throw_error("{}: {} '{}' is not supported; supported are {}", origin, key, name, quoted_list(family_names()));
  }
  return *family;
}

json parse_object(const std::string& text, const std::string& origin) {
  json object = json::parse(text, nullptr, false);
  if (object.is_discarded()) throw_error("{}: not a JSON file", origin);
  if (!object.is_object()) throw_error("{}: the file is not a JSON object", origin);
  return object;
}

void apply_overrides(json& object, const std::map<std::string, std::string>& overrides) {
  for (const auto& [key, text] : overrides) {
    json value = json::parse(text, nullptr, false);
    object[key] = value.is_discarded() ? json(text) : std::move(value);
  }
}

void keep_share(const ExpertShare& share, MoeConfig& config) {
  PPCTL_CHECK(config.num_experts % share.count == 0, "{} experts over {} ranks", config.num_experts, share.count);
  config.num_held = config.num_experts / share.count;
  config.first_held = share.index * config.num_held;
  const auto keep = [&](std::vector<LinearOptions::Part>& parts, std::int64_t per_expert) {
    const auto first = parts.begin() + per_expert * config.first_held;
    parts = {first, first + per_expert * config.num_held};
  };
  keep(config.gate_up.parts, 2);
  keep(config.down.parts, 1);
}

ModelSpec parse_with(const Family& family, const json& object, const std::string& origin) {
  ModelSpec spec;
  spec.family = family.name;
  spec.origin = origin;
  spec.config_json = object.dump(2);
  const ConfigReader reader(object, origin);
  family.parse(reader, spec);
  return spec;
}

}  // namespace

ModelSpec parse_model(const std::string& config_json, const std::string& origin,
                      const std::map<std::string, std::string>& overrides) {
  json object = parse_object(config_json, origin);
  apply_overrides(object, overrides);
  const std::string name = ConfigReader(object, origin).text("model_type", "");
  if (name.empty()) throw_error("{}: model_type is missing", origin);
  return parse_with(checked_family(name, origin, "model_type"), object, origin);
}

ModelSpec parse_model_keys(const std::string& family_name, const std::map<std::string, std::string>& keys,
                           const std::string& origin) {
  const Family& family = checked_family(family_name, origin, "family");
  json object = json::object();
  object["model_type"] = family_name;
  apply_overrides(object, keys);
  for (const auto& [key, text] : keys) {
    const auto known = [&key = key](const auto& list) {
      return std::find(list.begin(), list.end(), key) != list.end();
    };
    if (known(family.keys) || known(kNeutralKeys)) continue;
    throw_error("{}: {} is not a key of {}{}", origin, key, family_name, did_you_mean(key, family.keys));
  }
  return parse_with(family, object, origin);
}

ModelSpec read_hf_config(const std::string& folder, const std::map<std::string, std::string>& overrides) {
  const std::string path = (std::filesystem::path(folder) / "config.json").string();
  const MappedFile file(path);
  const std::string text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  return parse_model(text, path, overrides);
}

TokenEmbeddingConfig embedding_config(const ModelSpec& spec) { return family_of(spec).embedding(spec); }

DecoderLayerConfig layer_config(const ModelSpec& spec, std::int64_t index) {
  return family_of(spec).layer(spec, index);
}

AuxLossConfig aux_loss_config(const ModelSpec& spec) {
  const auto num_dense = static_cast<std::int64_t>(spec.dense_layers.size());
  return {spec.aux_loss_coefficient, spec.num_experts, spec.num_layers - num_dense};
}

DecoderLayerConfig layer_config(const ModelSpec& spec, const StageRange& range, std::int64_t index) {
  DecoderLayerConfig config = layer_config(spec, index);
  if (config.moe) keep_share(range.experts, *config.moe);
  config.recompute = range.activations_of(index).recompute;
  return config;
}

LanguageHeadConfig head_config(const ModelSpec& spec) { return family_of(spec).head(spec); }

}  // namespace ppctl
