#pragma once

#include <string>

#include "model/config_reader.hpp"
#include "model/families/families.hpp"

namespace ppctl {

/// Reads rope_parameters, or rope_theta and rope_scaling, with the defaults of transformers. REQUIRES: head_dim and
/// max_positions of `spec` are set.
RopeSpec parse_rope(const ConfigReader& config, const ModelSpec& spec);

/// Reads an activation function's name.
kernels::Activation parse_activation(const ConfigReader& config, const std::string& key, const std::string& fallback);

/// What Llama and its descendants have in common: hidden_size, num_attention_heads, ..., and their tensors' names.
/// `default_head_dim` 0: hidden_size / heads.
void parse_llama_like(const ConfigReader& config, ModelSpec& spec, std::int64_t default_head_dim);
std::unique_ptr<TokenEmbedding> make_llama_embedding(const BuildContext& context);
std::unique_ptr<Layer> make_llama_layer(const BuildContext& context, std::int64_t index);
std::unique_ptr<LanguageHead> make_llama_head(const BuildContext& context);

}  // namespace ppctl
