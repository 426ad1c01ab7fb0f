#include <array>
#include <cmath>

#include "arch/families/common.hpp"

namespace ppctl {
namespace {

constexpr std::array<std::string_view, 22> kKeys = {"vocab_size",
                                                    "hidden_size",
                                                    "intermediate_size",
                                                    "num_hidden_layers",
                                                    "num_attention_heads",
                                                    "num_key_value_heads",
                                                    "head_dim",
                                                    "hidden_act",
                                                    "max_position_embeddings",
                                                    "original_max_position_embeddings",
                                                    "initializer_range",
                                                    "rms_norm_eps",
                                                    "tie_word_embeddings",
                                                    "rope_parameters",
                                                    "rope_theta",
                                                    "rope_scaling",
                                                    "attention_bias",
                                                    "attention_dropout",
                                                    "mlp_bias",
                                                    "bos_token_id",
                                                    "eos_token_id",
                                                    "pad_token_id"};

void parse(const ConfigReader& config, ModelSpec& spec) {
  parse_llama_like(config, spec, 0);
  spec.mlp_bias = config.boolean("mlp_bias", false);
  // Llama's attention_bias is on all four projections.
  spec.attention_output_bias = spec.qkv_bias;
}

LinearOptions linear(const ModelSpec& spec, std::int64_t in_features, std::vector<LinearOptions::Part> parts,
                     bool bias) {
  LinearOptions options;
  options.in_features = in_features;
  options.parts = std::move(parts);
  options.bias = bias;
  options.init_stddev = spec.initializer_range;
  return options;
}

AttentionConfig attention(const ModelSpec& spec, const std::string& prefix, std::int64_t index) {
  AttentionConfig config;
  config.heads = {spec.num_heads, spec.num_kv_heads, spec.head_dim};
  config.scale = 1.0 / std::sqrt(static_cast<double>(spec.head_dim));
  config.dropout = spec.attention_dropout;
  config.dropout_site = static_cast<std::uint32_t>(index + 1) * kDropoutSitesPerLayer;
  config.qkv = linear(spec, spec.hidden_size,
                      {{prefix + "q_proj", spec.num_heads * spec.head_dim},
                       {prefix + "k_proj", spec.num_kv_heads * spec.head_dim},
                       {prefix + "v_proj", spec.num_kv_heads * spec.head_dim}},
                      spec.qkv_bias);
  config.output =
      linear(spec, spec.num_heads * spec.head_dim, {{prefix + "o_proj", spec.hidden_size}}, spec.attention_output_bias);
  config.rotary = true;
  if (spec.head_norm) {
    config.query_norm = prefix + "q_norm";
    config.key_norm = prefix + "k_norm";
    config.norm_eps = spec.norm_eps;
  }
  return config;
}

}  // namespace

void parse_llama_like(const ConfigReader& config, ModelSpec& spec, std::int64_t default_head_dim) {
  spec.vocab_size = config.positive("vocab_size");
  spec.hidden_size = config.positive("hidden_size");
  spec.intermediate_size = config.positive("intermediate_size");
  spec.num_layers = config.positive("num_hidden_layers");
  spec.num_heads = config.positive("num_attention_heads");
  spec.num_kv_heads = config.positive("num_key_value_heads", spec.num_heads);
  spec.max_positions = config.positive("max_position_embeddings", 2048);
  spec.initializer_range = config.number("initializer_range", 0.02);
  spec.norm_eps = config.number("rms_norm_eps", 1e-6);
  spec.tied_head = config.boolean("tie_word_embeddings", false);
  spec.activation = parse_activation(config, "hidden_act", "silu");
  spec.qkv_bias = config.boolean("attention_bias", false);
  spec.attention_dropout = config.probability("attention_dropout", 0.0);
  if (spec.num_heads % spec.num_kv_heads != 0) {
    config.fail("num_attention_heads", fmt::format("must be a multiple of num_key_value_heads; they are {} and {}",
                                                   spec.num_heads, spec.num_kv_heads));
  }
  if (!config.has("head_dim") && default_head_dim == 0 && spec.hidden_size % spec.num_heads != 0) {
    config.fail("hidden_size",
                fmt::format("must be a multiple of num_attention_heads where head_dim is missing; they are {} and {}",
                            spec.hidden_size, spec.num_heads));
  }
  spec.head_dim =
      config.positive("head_dim", default_head_dim != 0 ? default_head_dim : spec.hidden_size / spec.num_heads);
  if (spec.head_dim % 2 != 0) {
    config.fail("head_dim", fmt::format("must be even for rotary position embedding; it is {}", spec.head_dim));
  }
  spec.rope = parse_rope(config, spec);
}

Activation parse_activation(const ConfigReader& config, const std::string& key, const std::string& fallback) {
  const std::string name = config.text(key, fallback);
  const std::optional<Activation> activation = activation_of(name);
  if (!activation) {
    config.fail(key,
                fmt::format("must be silu, gelu, gelu_new, gelu_pytorch_tanh, quick_gelu or relu; it is '{}'", name));
  }
  return *activation;
}

TokenEmbeddingConfig llama_embedding(const ModelSpec& spec) {
  TokenEmbeddingConfig config;
  config.tokens = spec.text_prefix + "model.embed_tokens";
  config.vocab_size = spec.vocab_size;
  config.hidden_size = spec.hidden_size;
  config.init_stddev = spec.initializer_range;
  return config;
}

DecoderLayerConfig llama_layer(const ModelSpec& spec, std::int64_t index) {
  DecoderLayerConfig config;
  config.name = fmt::format("{}model.layers.{}", spec.text_prefix, index);
  config.attention_norm = {NormKind::kRms, config.name + ".input_layernorm", spec.hidden_size, spec.norm_eps};
  config.feed_forward_norm = {NormKind::kRms, config.name + ".post_attention_layernorm", spec.hidden_size,
                              spec.norm_eps};
  config.attention = attention(spec, config.name + ".self_attn.", index);
  const std::string mlp = config.name + ".mlp.";
  config.feed_forward.in =
      linear(spec, spec.hidden_size,
             {{mlp + "gate_proj", spec.intermediate_size}, {mlp + "up_proj", spec.intermediate_size}}, spec.mlp_bias);
  config.feed_forward.down =
      linear(spec, spec.intermediate_size, {{mlp + "down_proj", spec.hidden_size}}, spec.mlp_bias);
  config.feed_forward.activation = spec.activation;
  return config;
}

LanguageHeadConfig llama_head(const ModelSpec& spec) {
  LanguageHeadConfig config;
  config.norm = {NormKind::kRms, spec.text_prefix + "model.norm", spec.hidden_size, spec.norm_eps};
  config.projection = linear(spec, spec.hidden_size, {{spec.text_prefix + "lm_head", spec.vocab_size}}, false);
  if (spec.tied_head) config.projection.tied_to = spec.text_prefix + "model.embed_tokens.weight";
  return config;
}

const Family& llama_family() {
  static const Family family{"llama", kKeys, parse, llama_embedding, llama_layer, llama_head};
  return family;
}

}  // namespace ppctl
