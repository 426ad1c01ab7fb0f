#include <array>

#include "arch/families/common.hpp"

namespace ppctl {
namespace {

constexpr std::array<std::string_view, 33> kKeys = {"vocab_size",
                                                    "hidden_size",
                                                    "intermediate_size",
                                                    "num_hidden_layers",
                                                    "num_attention_heads",
                                                    "num_key_value_heads",
                                                    "head_dim",
                                                    "hidden_act",
                                                    "max_position_embeddings",
                                                    "initializer_range",
                                                    "rms_norm_eps",
                                                    "tie_word_embeddings",
                                                    "rope_parameters",
                                                    "rope_theta",
                                                    "rope_scaling",
                                                    "attention_bias",
                                                    "attention_dropout",
                                                    "use_sliding_window",
                                                    "sliding_window",
                                                    "max_window_layers",
                                                    "layer_types",
                                                    "num_experts",
                                                    "num_local_experts",
                                                    "num_experts_per_tok",
                                                    "moe_intermediate_size",
                                                    "decoder_sparse_step",
                                                    "mlp_only_layers",
                                                    "norm_topk_prob",
                                                    "router_aux_loss_coef",
                                                    "output_router_logits",
                                                    "bos_token_id",
                                                    "eos_token_id",
                                                    "pad_token_id"};

/// Layers with an MLP: those listed, and all but every decoder_sparse_step-th one.
void parse_dense_layers(const ConfigReader& config, ModelSpec& spec) {
  const std::int64_t step = config.positive("decoder_sparse_step", 1);
  std::vector<bool> dense(static_cast<std::size_t>(spec.num_layers), false);
  for (std::size_t i = 0; i < dense.size(); ++i) dense[i] = (static_cast<std::int64_t>(i) + 1) % step != 0;
  for (const double listed :
       config.has("mlp_only_layers") ? config.numbers("mlp_only_layers") : std::vector<double>()) {
    if (listed != static_cast<double>(static_cast<std::int64_t>(listed)) || listed < 0.0) {
      config.fail("mlp_only_layers", fmt::format("must hold numbers of layers; it has {}", listed));
    }
    if (listed < static_cast<double>(dense.size())) dense[static_cast<std::size_t>(listed)] = true;
  }
  for (std::size_t i = 0; i < dense.size(); ++i) {
    if (dense[i]) spec.dense_layers.push_back(static_cast<std::int64_t>(i));
  }
}

/// Qwen3 with a mixture of experts in all layers, or some of them.
void parse(const ConfigReader& config, ModelSpec& spec) {
  parse_llama_like(config, spec, 0);
  spec.head_norm = true;
  spec.attention_output_bias = spec.qkv_bias;
  if (config.boolean("use_sliding_window", false)) {
    config.fail("use_sliding_window", "is true, but sliding-window attention is not supported");
  }
  parse_experts(config, spec);
  spec.expert_intermediate_size = config.positive("moe_intermediate_size");
  spec.renormalise_experts = config.boolean("norm_topk_prob", false);
  parse_dense_layers(config, spec);
}

DecoderLayerConfig layer(const ModelSpec& spec, std::int64_t index) {
  DecoderLayerConfig config = llama_layer(spec, index);
  if (spec.has_experts(index)) {
    config.moe = moe_config(spec, config.name, config.name + ".mlp.", {"gate_proj", "up_proj", "down_proj"});
  }
  return config;
}

}  // namespace

const Family& qwen3_moe_family() {
  static const Family family{"qwen3_moe", kKeys, parse, llama_embedding, layer, llama_head};
  return family;
}

}  // namespace ppctl
