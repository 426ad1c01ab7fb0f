#pragma once

#include <string>

#include "arch/config_reader.hpp"
#include "arch/families/families.hpp"

namespace ppctl {

/// Reads rope_parameters, or rope_theta and rope_scaling, with the defaults of transformers. REQUIRES: head_dim and
/// max_positions of `spec` are set.
RopeSpec parse_rope(const ConfigReader& config, const ModelSpec& spec);

/// Reads an activation function's name.
Activation parse_activation(const ConfigReader& config, const std::string& key, const std::string& fallback);

/// What Llama and its descendants have in common: hidden_size, num_attention_heads, ..., and their tensors' names.
/// `default_head_dim` 0: hidden_size / heads.
void parse_llama_like(const ConfigReader& config, ModelSpec& spec, std::int64_t default_head_dim);
TokenEmbeddingConfig llama_embedding(const ModelSpec& spec);
DecoderLayerConfig llama_layer(const ModelSpec& spec, std::int64_t index);
LanguageHeadConfig llama_head(const ModelSpec& spec);

/// Reads what the families with experts have in common, num_local_experts (or num_experts), num_experts_per_tok and the
/// auxiliary loss, which counts only where output_router_logits is true, as in transformers.
void parse_experts(const ConfigReader& config, ModelSpec& spec);
/// Names of an expert's three projections.
struct ExpertNames {
  std::string_view gate, up, down;
};
/// `prefix`: "model.layers.0.mlp."; followed by "gate" for the router and by "experts.N." for the experts.
MoeConfig moe_config(const ModelSpec& spec, const std::string& layer, const std::string& prefix,
                     const ExpertNames& names);

}  // namespace ppctl
