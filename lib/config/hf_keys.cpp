// The keys of Hugging Face's config.json that ppctl takes in a job's `model` section. A table rather than code: what a
// key means is the model layer's business; here each has a type, so that a slip is caught with its position.

#include "config/hf_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "config/scalars.hpp"

namespace ppctl {
namespace {

/// Sets of families and of nested maps, as bits.
enum : unsigned {
  kLlama = 1U,
  kQwen3 = 2U,
  kGpt2 = 4U,
  kMixtral = 8U,
  kQwen3Moe = 16U,
  kLlava = 32U,
  kVision = 64U,  // llava's vision_config
  kRope = 128U,   // rope_scaling, rope_parameters
  kQwen = kQwen3 | kQwen3Moe,
  kMoe = kMixtral | kQwen3Moe,
  kRotary = kLlama | kQwen | kMixtral,
};

enum class KeyType {
  kSize,
  kInteger,
  kNumber,
  kBoolean,
  kText,
  kIntegerOrList,
  kTextList,
  kIntegerList,
  kRopeMap,
  kTextMap,
  kVisionMap
};

struct HfKey {
  std::string_view name;
  KeyType type;
  unsigned families;
};

constexpr std::array kFamilies{std::string_view("llama"),   std::string_view("qwen3"),     std::string_view("gpt2"),
                               std::string_view("mixtral"), std::string_view("qwen3_moe"), std::string_view("llava")};

constexpr HfKey kKeys[] = {
    {"vocab_size", KeyType::kSize, kRotary | kGpt2 | kVision},
    {"hidden_size", KeyType::kSize, kRotary | kVision},
    {"intermediate_size", KeyType::kSize, kRotary | kVision},
    {"num_hidden_layers", KeyType::kSize, kRotary | kVision},
    {"num_attention_heads", KeyType::kSize, kRotary | kVision},
    {"num_key_value_heads", KeyType::kSize, kRotary},
    {"head_dim", KeyType::kSize, kRotary},
    {"hidden_act", KeyType::kText, kRotary | kVision},
    {"max_position_embeddings", KeyType::kSize, kRotary},
    {"rms_norm_eps", KeyType::kNumber, kRotary},
    {"tie_word_embeddings", KeyType::kBoolean, kRotary | kGpt2 | kLlava},
    {"rope_theta", KeyType::kNumber, kRotary | kRope},
    {"rope_scaling", KeyType::kRopeMap, kRotary},
    {"rope_parameters", KeyType::kRopeMap, kRotary},
    {"attention_bias", KeyType::kBoolean, kRotary},
    {"attention_dropout", KeyType::kNumber, kRotary | kVision},
    {"mlp_bias", KeyType::kBoolean, kLlama},
    {"pretraining_tp", KeyType::kSize, kLlama},
    {"sliding_window", KeyType::kSize, kQwen | kMixtral},
    {"use_sliding_window", KeyType::kBoolean, kQwen},
    {"max_window_layers", KeyType::kInteger, kQwen},
    {"layer_types", KeyType::kTextList, kQwen},
    {"initializer_range", KeyType::kNumber, kRotary | kGpt2 | kVision},
    {"use_cache", KeyType::kBoolean, kRotary | kGpt2},
    {"bos_token_id", KeyType::kInteger, kRotary | kGpt2},
    {"eos_token_id", KeyType::kIntegerOrList, kRotary | kGpt2},
    {"pad_token_id", KeyType::kInteger, kRotary | kGpt2 | kLlava},
    {"num_experts_per_tok", KeyType::kSize, kMoe},
    {"num_local_experts", KeyType::kSize, kMoe},
    {"router_jitter_noise", KeyType::kNumber, kMixtral},
    {"output_router_logits", KeyType::kBoolean, kMoe},
    {"router_aux_loss_coef", KeyType::kNumber, kMoe},
    {"num_experts", KeyType::kSize, kQwen3Moe},
    {"moe_intermediate_size", KeyType::kSize, kQwen3Moe},
    {"decoder_sparse_step", KeyType::kSize, kQwen3Moe},
    {"norm_topk_prob", KeyType::kBoolean, kQwen3Moe},
    {"mlp_only_layers", KeyType::kIntegerList, kQwen3Moe},
    {"n_positions", KeyType::kSize, kGpt2},
    {"n_embd", KeyType::kSize, kGpt2},
    {"n_layer", KeyType::kSize, kGpt2},
    {"n_head", KeyType::kSize, kGpt2},
    {"n_inner", KeyType::kSize, kGpt2},
    {"activation_function", KeyType::kText, kGpt2},
    {"resid_pdrop", KeyType::kNumber, kGpt2},
    {"embd_pdrop", KeyType::kNumber, kGpt2},
    {"attn_pdrop", KeyType::kNumber, kGpt2},
    {"layer_norm_epsilon", KeyType::kNumber, kGpt2},
    {"scale_attn_weights", KeyType::kBoolean, kGpt2},
    {"scale_attn_by_inverse_layer_idx", KeyType::kBoolean, kGpt2},
    {"reorder_and_upcast_attn", KeyType::kBoolean, kGpt2},
    {"text_config", KeyType::kTextMap, kLlava},
    {"vision_config", KeyType::kVisionMap, kLlava},
    {"image_token_index", KeyType::kInteger, kLlava},
    {"image_token_id", KeyType::kInteger, kLlava},
    {"image_seq_length", KeyType::kSize, kLlava},
    {"projector_hidden_act", KeyType::kText, kLlava},
    {"multimodal_projector_bias", KeyType::kBoolean, kLlava},
    {"vision_feature_select_strategy", KeyType::kText, kLlava},
    {"vision_feature_layer", KeyType::kIntegerOrList, kLlava},
    {"ignore_index", KeyType::kInteger, kLlava},
    {"projection_dim", KeyType::kSize, kVision},
    {"num_channels", KeyType::kSize, kVision},
    {"image_size", KeyType::kSize, kVision},
    {"patch_size", KeyType::kSize, kVision},
    {"layer_norm_eps", KeyType::kNumber, kVision},
    {"initializer_factor", KeyType::kNumber, kVision},
    {"rope_type", KeyType::kText, kRope},
    {"type", KeyType::kText, kRope},
    {"factor", KeyType::kNumber, kRope},
    {"low_freq_factor", KeyType::kNumber, kRope},
    {"high_freq_factor", KeyType::kNumber, kRope},
    {"original_max_position_embeddings", KeyType::kSize, kRope},
    {"attention_factor", KeyType::kNumber, kRope},
    {"beta_fast", KeyType::kNumber, kRope},
    {"beta_slow", KeyType::kNumber, kRope},
    {"mscale", KeyType::kNumber, kRope},
    {"mscale_all_dim", KeyType::kNumber, kRope},
    {"truncate", KeyType::kBoolean, kRope},
    {"partial_rotary_factor", KeyType::kNumber, kRope},
};

constexpr HfKey kNestedModelType{"model_type", KeyType::kText, kLlama | kVision};

unsigned bit_of(std::string_view family) {
  const auto found = std::find(kFamilies.begin(), kFamilies.end(), family);
  if (found == kFamilies.end()) return kRotary | kGpt2 | kLlava;
  return 1U << static_cast<unsigned>(found - kFamilies.begin());
}

/// Checks the values of one map, a level of config.json at a time.
class HfReader {
 public:
  HfReader(MapReader& map, unsigned families) : map_(map), families_(families) {}

  /// The keys of the map that are known and right, as JSON text.
  std::map<std::string, std::string> read_all() {
    std::map<std::string, std::string> found;
    for (const HfKey& key : kKeys) {
      if ((key.families & families_) != 0) read_one(key, found);
    }
    return found;
  }

  void read_one(const HfKey& key, std::map<std::string, std::string>& found) {
    map_.declare(key.name);
    const YamlNode::Entry* entry = map_.node() != nullptr ? map_.node()->find(key.name) : nullptr;
    if (entry == nullptr) return;
    // config.json writes null where a key is not used; so may a job.
    map_.context().marks[map_.dotted(key.name)] = entry->value->mark;
    const auto json =
        entry->value->kind == YamlNode::Kind::kNull ? std::optional<std::string>("null") : convert(key, *entry->value);
    if (!json) return;
    found[std::string(key.name)] = *json;
    if (nested(key.type) == 0) map_.record(key.name, *json);
  }

 private:
  static unsigned nested(KeyType type) {
    if (type == KeyType::kRopeMap) return kRope;
    if (type == KeyType::kTextMap) return kRotary;
    if (type == KeyType::kVisionMap) return kVision;
    return 0;
  }

  std::optional<std::string> convert(const HfKey& key, const YamlNode& node) {
    constexpr std::int64_t kLargest = std::int64_t{1} << 40;
    const auto integer = [&](std::int64_t min) -> std::optional<std::string> {
      const auto read = map_.to_integer(key.name, node, min, kLargest);
      return read ? std::optional(std::to_string(*read)) : std::nullopt;
    };
    switch (key.type) {
      case KeyType::kSize:
        return integer(1);
      case KeyType::kInteger:
        return integer(-kLargest);
      case KeyType::kNumber: {
        const auto read = map_.to_number(key.name, node, {-std::numeric_limits<double>::infinity()});
        return read ? std::optional(scalar_to_json(node.text, false)) : std::nullopt;
      }
      case KeyType::kBoolean: {
        const auto read = map_.to_boolean(key.name, node);
        return read ? std::optional<std::string>(*read ? "true" : "false") : std::nullopt;
      }
      case KeyType::kText: {
        const auto read = map_.to_text(key.name, node);
        return read ? std::optional(scalar_to_json(*read, true)) : std::nullopt;
      }
      case KeyType::kIntegerOrList:
        if (node.kind != YamlNode::Kind::kSequence) return integer(-kLargest);
        return list(key, node, "a list of whole numbers",
                    [](const YamlNode& n) { return !n.quoted && parse_integer(n.text); });
      case KeyType::kIntegerList:
        return list(key, node, "a list of whole numbers",
                    [](const YamlNode& n) { return !n.quoted && parse_integer(n.text); });
      case KeyType::kTextList:
        return list(key, node, "a list of names", [](const YamlNode&) { return true; });
      case KeyType::kRopeMap:
      case KeyType::kTextMap:
      case KeyType::kVisionMap:
        return map(key, node);
    }
    return std::nullopt;
  }

  template <class Predicate>
  std::optional<std::string> list(const HfKey& key, const YamlNode& node, std::string_view expected, Predicate fits) {
    const auto good = [&](const YamlPtr& item) { return item->kind == YamlNode::Kind::kScalar && fits(*item); };
    if (node.kind != YamlNode::Kind::kSequence) {
      map_.refuse(key.name, node, expected);
      return std::nullopt;
    }
    const auto bad = std::find_if_not(node.items.begin(), node.items.end(), good);
    if (bad == node.items.end()) return to_json(node);
    map_.refuse(key.name, **bad, expected);
    return std::nullopt;
  }

  std::optional<std::string> map(const HfKey& key, const YamlNode& node) {
    if (node.kind != YamlNode::Kind::kMap) {
      map_.refuse(key.name, node, "a map");
      return std::nullopt;
    }
    MapReader below = map_.section(key.name);
    HfReader reader(below, nested(key.type));
    auto found = reader.read_all();
    if (key.type != KeyType::kRopeMap) reader.read_one(kNestedModelType, found);
    below.finish();
    std::string json;
    for (const auto& [name, value] : found) json += fmt::format("{}\"{}\": {}", json.empty() ? "" : ", ", name, value);
    return "{" + json + "}";
  }

  MapReader& map_;
  unsigned families_;
};

/// GPT-2 has names of its own for what the other families share; a user who knows those gets a hint.
constexpr std::pair<std::string_view, std::string_view> kGpt2Names[] = {{"hidden_size", "n_embd"},
                                                                        {"num_hidden_layers", "n_layer"},
                                                                        {"num_attention_heads", "n_head"},
                                                                        {"intermediate_size", "n_inner"},
                                                                        {"max_position_embeddings", "n_positions"},
                                                                        {"hidden_act", "activation_function"},
                                                                        {"rms_norm_eps", "layer_norm_epsilon"}};

void hint_gpt2_names(MapReader& model) {
  for (const auto& [other, own] : kGpt2Names) {
    const YamlNode::Entry* entry = model.node()->find(other);
    if (entry == nullptr) continue;
    model.context().diagnostics.add(entry->mark,
                                    fmt::format("unknown key '{}' in 'model': gpt2 calls it '{}'", other, own));
    model.declare(other);
  }
}

}  // namespace

std::span<const std::string_view> model_families() { return kFamilies; }

std::vector<std::string_view> hf_key_names(std::string_view family) {
  std::vector<std::string_view> names;
  for (const HfKey& key : kKeys) {
    if ((key.families & bit_of(family)) != 0) names.push_back(key.name);
  }
  return names;
}

void read_hf_keys(MapReader& model, ModelConfig& config) {
  config.hf = HfReader(model, bit_of(config.family)).read_all();
  if (model.node() == nullptr) return;
  if (config.family == "gpt2") hint_gpt2_names(model);
  if (config.family == "llava") return;  // its stages hold layers of both of its models
  const YamlNode::Entry* layers = model.node()->find(config.family == "gpt2" ? "n_layer" : "num_hidden_layers");
  if (layers != nullptr && layers->value->kind == YamlNode::Kind::kScalar) {
    model.context().num_layers = parse_integer(layers->value->text);
  }
}

}  // namespace ppctl
