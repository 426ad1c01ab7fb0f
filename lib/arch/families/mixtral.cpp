#include <array>

#include "arch/families/common.hpp"

namespace ppctl {
namespace {

constexpr std::array<std::string_view, 25> kKeys = {"vocab_size",
                                                    "hidden_size",
                                                    "intermediate_size",
                                                    "num_hidden_layers",
                                                    "num_attention_heads",
                                                    "num_key_value_heads",
                                                    "head_dim",
                                                    "hidden_act",
                                                    "initializer_range",
                                                    "rms_norm_eps",
                                                    "tie_word_embeddings",
                                                    "rope_parameters",
                                                    "rope_theta",
                                                    "rope_scaling",
                                                    "attention_dropout",
                                                    "sliding_window",
                                                    "num_local_experts",
                                                    "num_experts_per_tok",
                                                    "router_jitter_noise",
                                                    "router_aux_loss_coef",
                                                    "output_router_logits",
                                                    "max_position_embeddings",
                                                    "bos_token_id",
                                                    "eos_token_id",
                                                    "pad_token_id"};

/// Llama with a mixture of experts in every layer.
void parse(const ConfigReader& config, ModelSpec& spec) {
  parse_llama_like(config, spec, 0);
  spec.norm_eps = config.number("rms_norm_eps", 1e-5);
  // What transformers takes where the file says nothing.
  if (!config.has("rope_theta") && !config.has("rope_parameters") && !config.has("rope_scaling")) spec.rope.theta = 1e6;
  parse_experts(config, spec);
  spec.expert_intermediate_size = spec.intermediate_size;
  if (config.has("sliding_window"))
    config.fail("sliding_window", "is set, but sliding-window attention is not supported");
  if (config.number("router_jitter_noise", 0.0) != 0.0) config.fail("router_jitter_noise", "above 0 is not supported");
}

DecoderLayerConfig layer(const ModelSpec& spec, std::int64_t index) {
  DecoderLayerConfig config = llama_layer(spec, index);
  config.moe = moe_config(spec, config.name, config.name + ".block_sparse_moe.", {"w1", "w3", "w2"});
  return config;
}

}  // namespace

const Family& mixtral_family() {
  static const Family family{"mixtral", kKeys, parse, llama_embedding, layer, llama_head};
  return family;
}

}  // namespace ppctl
