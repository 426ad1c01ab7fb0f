#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/activation.hpp"

namespace ppctl {

/// What the parts of a model are made of, as plain values: families write them, lib/model builds layers from them, and
/// the cost and memory models count them. Names are those of the checkpoint, without ".weight" and ".bias".

/// How queries, keys and values lie in one merged matrix: [tokens, (heads + 2 * kv_heads) * head_dim], queries first.
struct HeadLayout {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;

  std::int64_t width() const { return (heads + 2 * kv_heads) * head_dim; }
};

/// One or several projections of the same input, computed as one matrix product.
struct LinearOptions {
  enum class Layout { kOutIn, kInOut };  ///< of a weight as stored: torch's Linear, or GPT-2's Conv1D

  struct Part {
    std::string name;  ///< "model.layers.0.self_attn.q_proj": ".weight" and ".bias" follow
    std::int64_t out_features;
  };
  std::int64_t in_features = 0;
  std::vector<Part> parts;  ///< REQUIRES: one part where the layout is kInOut
  bool bias = false;
  Layout layout = Layout::kOutIn;
  double init_stddev = 0.02;
  std::string tied_to;  ///< of the weight; empty: its own
  /// Each microbatch's weight gradient is a product of its own that is added as a whole, not summed inside the product:
  /// what ranks that share the microbatches of a step can fold to the same bits.
  bool separate_gradients = false;

  std::int64_t out_features() const {
    std::int64_t sum = 0;
    for (const Part& part : parts) sum += part.out_features;
    return sum;
  }
};

enum class NormKind { kRms, kLayer };

/// RMSNorm, or LayerNorm with bias, over the last dim.
struct NormOptions {
  NormKind kind = NormKind::kRms;
  std::string name;
  std::int64_t size = 0;
  double eps = 1e-6;

  /// Numbers that a row leaves for the backward: 1 / rms, or mean and 1 / deviation.
  std::int64_t statistics_per_row() const { return kind == NormKind::kRms ? 1 : 2; }
};

/// Random sites of dropout that a layer may use; see kernels::Dropout.
inline constexpr std::uint32_t kDropoutSitesPerLayer = 4;

struct AttentionConfig {
  HeadLayout heads;
  double scale = 1.0;
  bool causal = true;
  double dropout = 0.0;            ///< of the probabilities
  std::uint32_t dropout_site = 0;  ///< see kernels::Dropout
  LinearOptions qkv;               ///< its parts: queries, keys, values, or one that is stored merged
  LinearOptions output;
  bool rotary = false;     ///< rotary position embedding
  std::string query_norm;  ///< RMSNorm of each query and key head: both or none
  std::string key_norm;
  double norm_eps = 1e-6;

  bool has_head_norm() const { return !query_norm.empty(); }
};

/// down(act(gate(x)) * up(x)) where `in` has two parts, gate and up; down(act(in(x))) where it has one.
struct MlpConfig {
  LinearOptions in;
  LinearOptions down;
  Activation activation = Activation::kSilu;

  bool gated() const { return in.parts.size() == 2; }
};

/// Which parts of a layer keep nothing but their input for the backward, which runs them forward once more (Chen et
/// al., "Training Deep Nets with Sublinear Memory Cost", 2016; of parts: Korthikanti et al., 2022).
struct RecomputeParts {
  bool whole = false;         ///< the layer: its input alone is kept; the other two mean nothing then
  bool attention = false;     ///< with the norm before it
  bool feed_forward = false;  ///< with the norm before it

  bool any() const { return whole || attention || feed_forward; }
  bool operator==(const RecomputeParts&) const = default;
};

/// Which experts of every layer a rank holds: block `index` of `count` blocks of consecutive ones.
struct ExpertShare {
  int index = 0;
  int count = 1;
};

/// A mixture of experts: f(x) = sum over a token's top_k experts e of w_e * down_e(act(gate_e(x)) * up_e(x)), w the
/// softmax over the router's outputs of all experts.
struct MoeConfig {
  std::string name;  ///< of the group of the experts' parameters
  std::int64_t num_experts = 0;
  std::int64_t top_k = 0;
  bool renormalise = true;  ///< w_e / sum of w over the token's experts
  LinearOptions router;
  std::int64_t first_held = 0;  ///< experts whose weights are here: first_held .. first_held + num_held - 1
  std::int64_t num_held = 0;
  LinearOptions gate_up;  ///< of the experts held: gate and up of the first, of the second, ...
  LinearOptions down;     ///< of the experts held
  Activation activation = Activation::kSilu;

  bool holds_all() const { return num_held == num_experts; }
  std::int64_t hidden_size() const { return router.in_features; }
  std::int64_t expert_size() const { return down.in_features; }
};

/// A pre-norm decoder layer: h = x + attention(norm(x)), y = h + feed_forward(norm(h)), with dropout on what is added.
struct DecoderLayerConfig {
  std::string name;  ///< of its group of parameters
  NormOptions attention_norm;
  AttentionConfig attention;
  NormOptions feed_forward_norm;
  MlpConfig feed_forward;        ///< unless there are experts
  std::optional<MoeConfig> moe;  ///< instead of feed_forward
  double residual_dropout = 0.0;
  std::uint32_t first_site = 0;  ///< dropout sites first_site (attention) and first_site + 1 (feed-forward)
  RecomputeParts recompute;      ///< the job's choice, not the model's
};

/// Token ids to the first hidden state.
struct TokenEmbeddingConfig {
  std::string tokens;  ///< "model.embed_tokens"
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::string positions;  ///< "transformer.wpe"; empty: no table
  std::int64_t max_positions = 0;
  double init_stddev = 0.02;
  double dropout = 0.0;
  std::uint32_t dropout_site = 0;
};

/// The auxiliary loss of a mixture of experts (Fedus et al., "Switch Transformers", 2021, equations 4 to 6, as
/// transformers computes it): coefficient * E * sum over experts e of f_e * P_e, where f_e is the share of the router's
/// rows of which e is one of the choices and P_e its mean probability, both over all layers and tokens of a microbatch.
struct AuxLossConfig {
  double coefficient = 0.0;  ///< 0: there is none
  std::int64_t num_experts = 0;
  std::int64_t num_layers = 0;  ///< with experts, of the whole model
};

/// Final norm, projection to the vocabulary, cross-entropy.
struct LanguageHeadConfig {
  NormOptions norm;
  LinearOptions projection;
};

/// Images to the first hidden state of a vision tower (CLIP): a convolution without bias whose stride is its size, a
/// class token in front of the patches, learned positions, LayerNorm.
struct PatchEmbeddingConfig {
  std::string name;         ///< of its group of parameters
  std::string class_token;  ///< whole name: it is no ".weight"
  std::string patches;
  std::string positions;
  NormOptions norm;
  std::int64_t channels = 3;
  std::int64_t image_size = 0;  ///< pixels a side
  std::int64_t patch_size = 0;
  std::int64_t hidden_size = 0;
  double init_stddev = 0.02;

  std::int64_t grid() const { return image_size / patch_size; }
  std::int64_t num_patches() const { return grid() * grid(); }
  std::int64_t tokens() const { return num_patches() + 1; }  ///< of an image, class token included
  std::int64_t patch_elements() const { return channels * patch_size * patch_size; }
};

/// Where images enter a language model: the projector makes features of the vision tower's hidden states, and they take
/// the places of the image tokens among the embedded tokens.
struct ImageMergeConfig {
  std::string name;  ///< of its group of parameters
  LinearOptions in;  ///< of the projector
  Activation activation = Activation::kGeluErf;
  LinearOptions out;
  TokenEmbeddingConfig tokens;
  std::int64_t image_token = 0;      ///< its id
  std::int64_t image_tokens = 0;     ///< of an image, class token included
  bool keeps_class_token = false;    ///< false: features are those of the patches alone
  bool gives_image_gradient = true;  ///< whether somebody waits for the gradient of the hidden states

  std::int64_t features_per_image() const { return keeps_class_token ? image_tokens : image_tokens - 1; }
};

/// What a checkpoint holds and no forward uses: it is kept as it is.
struct UnusedPartsConfig {
  std::string name;  ///< of its group of parameters
  std::vector<DecoderLayerConfig> layers;
  NormOptions norm;
};

}  // namespace ppctl
