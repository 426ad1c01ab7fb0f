#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/activation.hpp"

namespace ppctl {

/// Rotary position embedding as a checkpoint's config.json states it (`rope_parameters`, or `rope_theta` and
/// `rope_scaling`).
struct RopeSpec {
  enum class Kind { kDefault, kLinear, kDynamic, kLlama3, kYarn, kLongRope };
  Kind kind = Kind::kDefault;
  double theta = 10000.0;
  double factor = 1.0;
  std::int64_t max_positions = 0;           ///< max_position_embeddings
  std::int64_t original_max_positions = 0;  ///< of the pre-training; max_positions where the file has none
  double attention_factor = 1.0;            ///< what cos and sin are multiplied by
  double low_freq_factor = 1.0;             ///< llama3
  double high_freq_factor = 4.0;            ///< llama3
  double beta_fast = 32.0;                  ///< yarn
  double beta_slow = 1.0;                   ///< yarn
  bool truncate = true;                     ///< yarn: whole dims as the limits of the ramp
  std::vector<double> short_factor;         ///< longrope, head_dim / 2 values
  std::vector<double> long_factor;
};

/// The images of a multimodal model: a CLIP vision tower and the projector behind it (LLaVA).
struct VisionSpec {
  enum class Training { kAll, kEncoderFrozen, kProjectorOnly };

  std::string prefix;  ///< of the tower's tensors: "vision_tower.", or "vision_tower.vision_model." in older files
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_layers = 0;   ///< of the checkpoint
  std::int64_t used_layers = 0;  ///< those before the hidden state that the features are taken from
  std::int64_t num_heads = 0;
  std::int64_t channels = 3;
  std::int64_t image_size = 0;
  std::int64_t patch_size = 0;
  Activation activation = Activation::kQuickGelu;
  double norm_eps = 1e-5;
  double attention_dropout = 0.0;
  double initializer_range = 0.02;
  Activation projector_activation = Activation::kGeluErf;
  bool projector_bias = true;
  bool keeps_class_token = false;
  std::int64_t image_token = 0;

  // of the job
  Training training = Training::kAll;
  double images_per_sample = 1.0;  ///< that plans reckon with

  std::int64_t image_tokens() const {
    return (image_size / patch_size) * (image_size / patch_size) + 1;  // with the class token
  }
  std::int64_t features_per_image() const { return keeps_class_token ? image_tokens() : image_tokens() - 1; }
};

/// A decoder-only transformer as its config.json describes it: what the built-in families have in common. Made by
/// parse_model(), which has checked every value.
struct ModelSpec {
  std::string family;       ///< model_type
  std::string config_json;  ///< the source, unknown keys included
  std::string origin;       ///< for messages: the file's path, or "model"

  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_layers = 0;  ///< that stages can hold: the vision tower's used ones first
  std::int64_t max_positions = 0;
  double initializer_range = 0.02;
  bool tied_head = false;

  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  bool qkv_bias = false;
  bool attention_output_bias = false;
  bool head_norm = false;  ///< RMSNorm of each query and key head (Qwen3)
  bool scale_attention = true;
  bool scale_attention_by_layer = false;  ///< also by 1 / (layer + 1) (GPT-2)
  bool learned_positions = false;         ///< a table instead of rotary embedding (GPT-2)
  RopeSpec rope;

  std::int64_t intermediate_size = 0;
  Activation activation = Activation::kSilu;
  bool mlp_bias = false;

  std::int64_t num_experts = 0;  ///< a layer; 0: no mixture of experts
  std::int64_t experts_per_token = 0;
  std::int64_t expert_intermediate_size = 0;
  bool renormalise_experts = true;         ///< the weights of a token's experts add up to 1
  double aux_loss_coefficient = 0.0;       ///< of the auxiliary loss that balances the experts; 0: there is none
  std::vector<std::int64_t> dense_layers;  ///< that have an MLP all the same, ascending

  bool has_experts(std::int64_t layer) const {
    return num_experts > 0 && !std::binary_search(dense_layers.begin(), dense_layers.end(), layer);
  }
  bool has_aux_loss() const { return aux_loss_coefficient != 0.0; }

  double norm_eps = 1e-6;

  double embedding_dropout = 0.0;
  double attention_dropout = 0.0;  ///< of the probabilities
  double residual_dropout = 0.0;   ///< of what attention and MLP add to the residual

  std::optional<VisionSpec> vision;  ///< multimodal models
  std::string text_prefix;           ///< of the language model's tensors: "language_model."
  /// Layers of the encoder that MPipe computes outside of the stages, with the patch embedding before them; -1: none of
  /// it. A job's choice.
  std::int64_t transposed_layers = -1;

  std::int64_t num_vision_layers() const { return vision ? vision->used_layers : 0; }
  /// The first layer that belongs to a stage, and whether the first stage also has the embedding before it.
  std::int64_t first_stage_layer() const { return transposed_layers < 0 ? 0 : transposed_layers; }
  bool stages_have_embedding() const { return transposed_layers < 0; }
};

}  // namespace ppctl
