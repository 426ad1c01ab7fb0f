#include <array>

#include "arch/families/common.hpp"

namespace ppctl {
namespace {

constexpr std::array<std::string_view, 24> kKeys = {
    "vocab_size",        "hidden_size",         "intermediate_size",
    "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
    "head_dim",          "hidden_act",          "max_position_embeddings",
    "initializer_range", "rms_norm_eps",        "tie_word_embeddings",
    "rope_parameters",   "rope_theta",          "rope_scaling",
    "attention_bias",    "attention_dropout",   "use_sliding_window",
    "sliding_window",    "max_window_layers",   "layer_types",
    "bos_token_id",      "eos_token_id",        "pad_token_id"};

/// Llama with RMSNorm on each query and key head before the rotation, and a head size of its own.
void parse(const ConfigReader& config, ModelSpec& spec) {
  parse_llama_like(config, spec, 128);
  spec.head_norm = true;
  spec.attention_output_bias = spec.qkv_bias;
  if (config.boolean("use_sliding_window", false)) {
    config.fail("use_sliding_window", "is true, but sliding-window attention is not supported");
  }
}

}  // namespace

const Family& qwen3_family() {
  static const Family family{"qwen3", kKeys, parse, llama_embedding, llama_layer, llama_head};
  return family;
}

}  // namespace ppctl
