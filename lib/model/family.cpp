#include "model/family.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/did_you_mean.hpp"
#include "model/families/families.hpp"

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

const Family& checked_family(const std::string& name, const std::string& origin, const std::string& key) {
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

ModelSpec parse_with(const Family& family, const json& object, const std::string& origin) {
  ModelSpec spec;
  spec.family = family.name;
  spec.origin = origin;
  spec.config_json = object.dump(2);
  const ConfigReader reader(object, origin);
  family.parse(reader, spec);
  return spec;
}

BuildContext build_context(const ModelSpec& spec, at::ScalarType dtype) {
  return {spec, dtype, spec.learned_positions ? nullptr : std::make_shared<RotaryEmbedding>(spec.rope, spec.head_dim)};
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

std::shared_ptr<StageModule> build_stage(const ModelSpec& spec, at::ScalarType dtype, const StageRange& range,
                                         std::uint64_t dropout_seed) {
  PPCTL_CHECK(0 <= range.first_layer && range.first_layer <= range.last_layer && range.last_layer <= spec.num_layers,
              "layers {} .. {} of {}", range.first_layer, range.last_layer, spec.num_layers);
  const Family& family = family_of(spec);
  const BuildContext context = build_context(spec, dtype);
  DecoderParts parts;
  if (range.has_embedding) parts.embedding = family.make_embedding(context);
  for (std::int64_t i = range.first_layer; i < range.last_layer; ++i)
    parts.layers.push_back(family.make_layer(context, i));
  if (range.has_head) parts.head = family.make_head(context);
  return std::make_shared<DecoderStage>(std::move(parts), dropout_seed);
}

std::vector<Parameter> all_parameters(const ModelSpec& spec) {
  const Family& family = family_of(spec);
  const BuildContext context = build_context(spec, at::kFloat);
  std::vector<Parameter> result;
  const auto append = [&result](const ParameterGroup& group) {
    result.insert(result.end(), group.parameters().begin(), group.parameters().end());
  };
  append(family.make_embedding(context)->group());
  for (std::int64_t i = 0; i < spec.num_layers; ++i) append(family.make_layer(context, i)->group());
  append(family.make_head(context)->group());
  return result;
}

}  // namespace ppctl
