#include <array>
#include <cmath>

#include "arch/families/common.hpp"

namespace ppctl {
namespace {

constexpr std::array<std::string_view, 21> kKeys = {"vocab_size",
                                                    "n_positions",
                                                    "n_ctx",
                                                    "n_embd",
                                                    "n_layer",
                                                    "n_head",
                                                    "n_inner",
                                                    "activation_function",
                                                    "resid_pdrop",
                                                    "embd_pdrop",
                                                    "attn_pdrop",
                                                    "layer_norm_epsilon",
                                                    "initializer_range",
                                                    "scale_attn_weights",
                                                    "scale_attn_by_inverse_layer_idx",
                                                    "reorder_and_upcast_attn",
                                                    "add_cross_attention",
                                                    "tie_word_embeddings",
                                                    "bos_token_id",
                                                    "eos_token_id",
                                                    "pad_token_id"};

void parse(const ConfigReader& config, ModelSpec& spec) {
  spec.vocab_size = config.positive("vocab_size");
  spec.max_positions = config.positive("n_positions", 1024);
  spec.hidden_size = config.positive("n_embd");
  spec.num_layers = config.positive("n_layer");
  spec.num_heads = config.positive("n_head");
  spec.num_kv_heads = spec.num_heads;
  if (spec.hidden_size % spec.num_heads != 0) {
    config.fail("n_embd",
                fmt::format("must be a multiple of n_head; they are {} and {}", spec.hidden_size, spec.num_heads));
  }
  spec.head_dim = spec.hidden_size / spec.num_heads;
  spec.intermediate_size = config.positive("n_inner", 4 * spec.hidden_size);
  spec.activation = parse_activation(config, "activation_function", "gelu_new");
  spec.residual_dropout = config.probability("resid_pdrop", 0.1);
  spec.embedding_dropout = config.probability("embd_pdrop", 0.1);
  spec.attention_dropout = config.probability("attn_pdrop", 0.1);
  spec.norm_eps = config.number("layer_norm_epsilon", 1e-5);
  spec.initializer_range = config.number("initializer_range", 0.02);
  spec.scale_attention = config.boolean("scale_attn_weights", true);
  spec.scale_attention_by_layer = config.boolean("scale_attn_by_inverse_layer_idx", false);
  spec.tied_head = config.boolean("tie_word_embeddings", true);
  spec.learned_positions = true;
  spec.qkv_bias = true;
  spec.attention_output_bias = true;
  spec.mlp_bias = true;
  if (config.boolean("add_cross_attention", false)) {
    config.fail("add_cross_attention", "is true, but cross-attention is not supported");
  }
}

/// GPT-2 stores its weights [in, out] and starts those that end a residual branch smaller, by 1 / sqrt(2 layers).
LinearOptions conv1d(const ModelSpec& spec, const std::string& name, std::int64_t in_features,
                     std::int64_t out_features, bool ends_branch) {
  LinearOptions options;
  options.in_features = in_features;
  options.parts = {{name, out_features}};
  options.bias = true;
  options.layout = LinearOptions::Layout::kInOut;
  options.init_stddev = spec.initializer_range;
  if (ends_branch) options.init_stddev /= std::sqrt(2.0 * static_cast<double>(spec.num_layers));
  return options;
}

AttentionConfig attention(const ModelSpec& spec, const std::string& prefix, std::int64_t index) {
  AttentionConfig config;
  config.heads = {spec.num_heads, spec.num_heads, spec.head_dim};
  config.scale = spec.scale_attention ? 1.0 / std::sqrt(static_cast<double>(spec.head_dim)) : 1.0;
  if (spec.scale_attention_by_layer) config.scale /= static_cast<double>(index + 1);
  config.dropout = spec.attention_dropout;
  config.dropout_site = static_cast<std::uint32_t>(index + 1) * kDropoutSitesPerLayer;
  config.qkv = conv1d(spec, prefix + "c_attn", spec.hidden_size, 3 * spec.hidden_size, false);
  config.output = conv1d(spec, prefix + "c_proj", spec.hidden_size, spec.hidden_size, true);
  return config;
}

TokenEmbeddingConfig embedding(const ModelSpec& spec) {
  TokenEmbeddingConfig config;
  config.tokens = "transformer.wte";
  config.vocab_size = spec.vocab_size;
  config.hidden_size = spec.hidden_size;
  config.positions = "transformer.wpe";
  config.max_positions = spec.max_positions;
  config.init_stddev = spec.initializer_range;
  config.dropout = spec.embedding_dropout;
  return config;
}

DecoderLayerConfig layer(const ModelSpec& spec, std::int64_t index) {
  DecoderLayerConfig config;
  config.name = fmt::format("transformer.h.{}", index);
  config.attention_norm = {NormKind::kLayer, config.name + ".ln_1", spec.hidden_size, spec.norm_eps};
  config.feed_forward_norm = {NormKind::kLayer, config.name + ".ln_2", spec.hidden_size, spec.norm_eps};
  config.attention = attention(spec, config.name + ".attn.", index);
  config.residual_dropout = spec.residual_dropout;
  config.first_site = config.attention.dropout_site + 1;
  const std::string mlp = config.name + ".mlp.";
  config.feed_forward = {conv1d(spec, mlp + "c_fc", spec.hidden_size, spec.intermediate_size, false),
                         conv1d(spec, mlp + "c_proj", spec.intermediate_size, spec.hidden_size, true), spec.activation};
  return config;
}

LanguageHeadConfig head(const ModelSpec& spec) {
  LanguageHeadConfig config;
  config.norm = {NormKind::kLayer, "transformer.ln_f", spec.hidden_size, spec.norm_eps};
  config.projection.in_features = spec.hidden_size;
  config.projection.parts = {{"lm_head", spec.vocab_size}};
  config.projection.init_stddev = spec.initializer_range;
  if (spec.tied_head) config.projection.tied_to = "transformer.wte.weight";
  return config;
}

}  // namespace

const Family& gpt2_family() {
  static const Family family{"gpt2", kKeys, parse, embedding, layer, head};
  return family;
}

}  // namespace ppctl
