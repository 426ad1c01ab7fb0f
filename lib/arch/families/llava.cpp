#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "arch/families/common.hpp"
#include "arch/vision.hpp"

namespace ppctl {
namespace {

constexpr std::array<std::string_view, 12> kKeys = {
    "text_config",          "vision_config",        "image_token_index",         "image_token_id",
    "image_seq_length",     "projector_hidden_act", "multimodal_projector_bias", "vision_feature_select_strategy",
    "vision_feature_layer", "ignore_index",         "tie_word_embeddings",       "pad_token_id"};

/// What LlamaConfig takes where text_config leaves a key out, as LLaVA's own checkpoints do.
constexpr std::array<std::pair<const char*, std::int64_t>, 5> kTextDefaults = {{{"vocab_size", 32000},
                                                                                {"hidden_size", 4096},
                                                                                {"intermediate_size", 11008},
                                                                                {"num_hidden_layers", 32},
                                                                                {"num_attention_heads", 32}}};

nlohmann::json text_config(const ConfigReader& config) {
  nlohmann::json text = config.has("text_config") ? config.child("text_config").object() : nlohmann::json::object();
  for (const auto& [key, value] : kTextDefaults) {
    if (!text.contains(key)) text[key] = value;
  }
  return text;
}

void parse_text(const ConfigReader& config, ModelSpec& spec) {
  const nlohmann::json text = text_config(config);
  const ConfigReader reader(text, spec.origin, "text_config.");
  if (reader.text("model_type", "llama") != "llama") reader.fail("model_type", "must be llama");
  parse_llama_like(reader, spec, 0);
  spec.mlp_bias = reader.boolean("mlp_bias", false);
  spec.attention_output_bias = spec.qkv_bias;
  spec.tied_head = config.boolean("tie_word_embeddings", spec.tied_head);
  spec.text_prefix = "language_model.";
}

/// Layers before the hidden state that `vision_feature_layer` counts: state 0 is the embedding, −1 the last layer's.
std::int64_t used_layers(const ConfigReader& config, std::int64_t num_layers) {
  const std::int64_t layer = config.integer("vision_feature_layer", -2);
  const std::int64_t used = layer < 0 ? num_layers + 1 + layer : layer;
  if (used < 0 || used > num_layers) {
    config.fail("vision_feature_layer", fmt::format("is {}, but vision_config has {} layers", layer, num_layers));
  }
  return used;
}

bool keeps_class_token(const ConfigReader& config) {
  const std::string strategy = config.text("vision_feature_select_strategy", "default");
  if (strategy != "default" && strategy != "full") {
    config.fail("vision_feature_select_strategy", fmt::format("must be default or full; it is '{}'", strategy));
  }
  return strategy == "full";
}

/// transformers calls the tower's tensors vision_tower.vision_model.* until version 4.
std::string tower_prefix(const ConfigReader& config) {
  const bool older = config.text("transformers_version", "").starts_with("4.");
  return older ? "vision_tower.vision_model." : "vision_tower.";
}

VisionSpec parse_vision(const ConfigReader& config) {
  const nlohmann::json empty = nlohmann::json::object();
  const bool given = config.has("vision_config");
  const ConfigReader vision = given ? config.child("vision_config") : ConfigReader(empty, "", "");
  if (!given) config.fail("vision_config", "is missing");
  if (vision.text("model_type", "clip_vision_model") != "clip_vision_model") {
    vision.fail("model_type", "must be clip_vision_model");
  }
  VisionSpec spec;
  spec.prefix = tower_prefix(config);
  spec.hidden_size = vision.positive("hidden_size", 768);
  spec.intermediate_size = vision.positive("intermediate_size", 3072);
  spec.num_layers = vision.positive("num_hidden_layers", 12);
  spec.used_layers = used_layers(config, spec.num_layers);
  spec.num_heads = vision.positive("num_attention_heads", 12);
  spec.channels = vision.positive("num_channels", 3);
  spec.image_size = vision.positive("image_size", 224);
  spec.patch_size = vision.positive("patch_size", 32);
  spec.activation = parse_activation(vision, "hidden_act", "quick_gelu");
  spec.norm_eps = vision.number("layer_norm_eps", 1e-5);
  spec.attention_dropout = vision.probability("attention_dropout", 0.0);
  spec.initializer_range = vision.number("initializer_range", 0.02);
  spec.projector_activation = parse_activation(config, "projector_hidden_act", "gelu");
  spec.projector_bias = config.boolean("multimodal_projector_bias", true);
  spec.keeps_class_token = keeps_class_token(config);
  if (spec.hidden_size % spec.num_heads != 0) {
    vision.fail("hidden_size", fmt::format("must be a multiple of num_attention_heads; they are {} and {}",
                                           spec.hidden_size, spec.num_heads));
  }
  if (spec.image_size % spec.patch_size != 0) {
    vision.fail("image_size",
                fmt::format("must be a multiple of patch_size; they are {} and {}", spec.image_size, spec.patch_size));
  }
  return spec;
}

void parse(const ConfigReader& config, ModelSpec& spec) {
  parse_text(config, spec);
  spec.vision = parse_vision(config);
  const char* key = config.has("image_token_id") ? "image_token_id" : "image_token_index";
  spec.vision->image_token = config.integer(key, 32000);
  if (spec.vision->image_token < 0 || spec.vision->image_token >= spec.vocab_size) {
    config.fail(key, fmt::format("is {}, outside of the vocabulary of {}", spec.vision->image_token, spec.vocab_size));
  }
  spec.num_layers += spec.vision->used_layers;
}

LinearOptions linear(std::int64_t in_features, std::vector<LinearOptions::Part> parts, bool bias, double stddev,
                     bool separate_gradients) {
  LinearOptions options;
  options.in_features = in_features;
  options.parts = std::move(parts);
  options.bias = bias;
  options.init_stddev = stddev;
  options.separate_gradients = separate_gradients;
  return options;
}

LinearOptions tower_linear(const VisionSpec& vision, std::int64_t in_features, std::vector<LinearOptions::Part> parts) {
  return linear(in_features, std::move(parts), true, vision.initializer_range, true);
}

DecoderLayerConfig vision_layer(const ModelSpec& spec, std::int64_t index) {
  const VisionSpec& vision = *spec.vision;
  DecoderLayerConfig config;
  config.name = fmt::format("{}encoder.layers.{}", vision.prefix, index);
  config.attention_norm = {NormKind::kLayer, config.name + ".layer_norm1", vision.hidden_size, vision.norm_eps};
  config.feed_forward_norm = {NormKind::kLayer, config.name + ".layer_norm2", vision.hidden_size, vision.norm_eps};
  const std::string attention = config.name + ".self_attn.";
  const std::int64_t head_dim = vision.hidden_size / vision.num_heads;
  config.attention.heads = {vision.num_heads, vision.num_heads, head_dim};
  config.attention.scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  config.attention.causal = false;
  config.attention.dropout = vision.attention_dropout;
  // Behind the sites of the text layers, which have those of the same text model without images.
  config.attention.dropout_site = static_cast<std::uint32_t>(spec.num_layers + index + 1) * kDropoutSitesPerLayer;
  config.attention.qkv = tower_linear(vision, vision.hidden_size,
                                      {{attention + "q_proj", vision.hidden_size},
                                       {attention + "k_proj", vision.hidden_size},
                                       {attention + "v_proj", vision.hidden_size}});
  config.attention.output = tower_linear(vision, vision.hidden_size, {{attention + "out_proj", vision.hidden_size}});
  const std::string mlp = config.name + ".mlp.";
  config.feed_forward.in = tower_linear(vision, vision.hidden_size, {{mlp + "fc1", vision.intermediate_size}});
  config.feed_forward.down = tower_linear(vision, vision.intermediate_size, {{mlp + "fc2", vision.hidden_size}});
  config.feed_forward.activation = vision.activation;
  return config;
}

DecoderLayerConfig layer(const ModelSpec& spec, std::int64_t index) {
  const std::int64_t num_vision = spec.num_vision_layers();
  return index < num_vision ? vision_layer(spec, index) : llama_layer(spec, index - num_vision);
}

}  // namespace

PatchEmbeddingConfig patch_embedding_config(const ModelSpec& spec) {
  const VisionSpec& vision = spec.vision.value();
  PatchEmbeddingConfig config;
  config.name = vision.prefix + "embeddings";
  config.class_token = config.name + ".class_embedding";
  config.patches = config.name + ".patch_embedding";
  config.positions = config.name + ".position_embedding";
  config.norm = {NormKind::kLayer, vision.prefix + "pre_layrnorm", vision.hidden_size, vision.norm_eps};
  config.channels = vision.channels;
  config.image_size = vision.image_size;
  config.patch_size = vision.patch_size;
  config.hidden_size = vision.hidden_size;
  config.init_stddev = vision.initializer_range;
  return config;
}

ImageMergeConfig image_merge_config(const ModelSpec& spec) {
  const VisionSpec& vision = spec.vision.value();
  const std::string projector = "multi_modal_projector.";
  const auto projection = [&](const char* name, std::int64_t in_features) {
    return linear(in_features, {{projector + name, spec.hidden_size}}, vision.projector_bias, spec.initializer_range,
                  false);
  };
  ImageMergeConfig config;
  config.name = "multi_modal_projector";
  config.in = projection("linear_1", vision.hidden_size);
  config.activation = vision.projector_activation;
  config.out = projection("linear_2", spec.hidden_size);
  config.tokens = llama_embedding(spec);
  config.image_token = vision.image_token;
  config.image_tokens = vision.image_tokens();
  config.keeps_class_token = vision.keeps_class_token;
  config.gives_image_gradient = vision.training == VisionSpec::Training::kAll;
  return config;
}

UnusedPartsConfig unused_parts_config(const ModelSpec& spec) {
  const VisionSpec& vision = spec.vision.value();
  UnusedPartsConfig config;
  config.name = vision.prefix + "unused";
  for (std::int64_t i = vision.used_layers; i < vision.num_layers; ++i) config.layers.push_back(vision_layer(spec, i));
  config.norm = {NormKind::kLayer, vision.prefix + "post_layernorm", vision.hidden_size, vision.norm_eps};
  return config;
}

const Family& llava_family() {
  static const Family family{"llava", kKeys, parse, llama_embedding, layer, llama_head};
  return family;
}

}  // namespace ppctl
