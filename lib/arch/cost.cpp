#include "arch/cost.hpp"

#include "arch/declare.hpp"
#include "arch/family.hpp"
#include "arch/vision.hpp"

namespace ppctl {
namespace {

std::int64_t num_elements(const GroupLayout& group) {
  std::int64_t count = 0;
  for (const Parameter& parameter : group.parameters()) {
    if (parameter.tied_to.empty()) count += parameter.numel;
  }
  return count;
}

/// One product each for y = x W, dx = dy W^T and dW = x^T dy.
PartCost linear_cost(const LinearOptions& linear) {
  const double product = 2.0 * static_cast<double>(linear.in_features) * static_cast<double>(linear.out_features());
  return {0, product, product, product, 0.0};
}

/// The forward has two products, scores and their sum over values; the backward five: scores again, dV, dP, dQ, dK
/// (Dao et al., "FlashAttention", 2022, section 3.1). A causal mask leaves half of each.
PartCost attention_cost(const AttentionConfig& attention, std::int64_t sequence) {
  const double product =
      2.0 * static_cast<double>(sequence) * static_cast<double>(attention.heads.heads * attention.heads.head_dim);
  const double share = attention.causal ? 0.5 : 1.0;
  return {0, 2.0 * product * share, 5.0 * product * share, 0.0, 0.0};
}

/// Of a token that goes to top_k experts, all of one size.
PartCost moe_cost(const MoeConfig& moe) {
  const double product = 2.0 * static_cast<double>(moe.top_k * moe.hidden_size() * moe.expert_size());
  constexpr double kProducts = 3.0;  // gate, up, down
  PartCost cost{0, kProducts * product, kProducts * product, kProducts * product, 0.0};
  cost += linear_cost(moe.router);
  return cost;
}

/// What is run again leaves out the products that only its output needs.
double recompute_flops(const DecoderLayerConfig& config, std::int64_t sequence) {
  const RecomputeParts& parts = config.recompute;
  double flops = 0.0;
  if (parts.whole || parts.attention) {
    flops += linear_cost(config.attention.qkv).forward_flops;
    flops += attention_cost(config.attention, sequence).forward_flops;
  }
  if (parts.whole) flops += linear_cost(config.attention.output).forward_flops;
  if (parts.whole || parts.feed_forward) {
    flops += config.moe ? moe_cost(*config.moe).forward_flops : linear_cost(config.feed_forward.in).forward_flops;
  }
  return flops;
}

PartCost scaled(PartCost cost, double factor) {
  cost.forward_flops *= factor;
  cost.dx_flops *= factor;
  cost.dw_flops *= factor;
  cost.recompute_flops *= factor;
  return cost;
}

}  // namespace

PartCost& PartCost::operator+=(const PartCost& other) {
  parameters += other.parameters;
  forward_flops += other.forward_flops;
  dx_flops += other.dx_flops;
  dw_flops += other.dw_flops;
  recompute_flops += other.recompute_flops;
  return *this;
}

PartCost cost_of(const TokenEmbeddingConfig& config) {
  return {num_elements(layout_of(config, 4)), 0.0, 0.0, 0.0, 0.0};
}

PartCost cost_of(const DecoderLayerConfig& config, std::int64_t sequence) {
  PartCost cost;
  for (const GroupLayout& group : layouts_of(config, 4)) cost.parameters += num_elements(group);
  cost += linear_cost(config.attention.qkv);
  cost += attention_cost(config.attention, sequence);
  cost += linear_cost(config.attention.output);
  if (config.moe) {
    cost += moe_cost(*config.moe);
  } else {
    cost += linear_cost(config.feed_forward.in);
    cost += linear_cost(config.feed_forward.down);
  }
  cost.recompute_flops = recompute_flops(config, sequence);
  return cost;
}

PartCost cost_of(const LanguageHeadConfig& config) {
  PartCost cost{num_elements(layout_of(config, 4)), 0.0, 0.0, 0.0, 0.0};
  cost += linear_cost(config.projection);
  return cost;
}

PartCost cost_of(const PatchEmbeddingConfig& config) {
  const double product = 2.0 * static_cast<double>(config.num_patches() * config.patch_elements()) *
                         static_cast<double>(config.hidden_size);
  return {num_elements(layout_of(config, 4)), product, 0.0, product, 0.0};
}

PartCost cost_of(const ImageMergeConfig& config) {
  PartCost cost = linear_cost(config.in);
  cost += linear_cost(config.out);
  cost = scaled(cost, static_cast<double>(config.features_per_image()));
  cost.parameters = num_elements(layout_of(config, 4));
  return cost;
}

namespace {

/// Without what training leaves out where `inputs` or `weights` are frozen.
PartCost trained_part(PartCost cost, bool frozen_inputs, bool frozen_weights) {
  if (frozen_inputs) cost.dx_flops = 0.0;
  if (frozen_weights) cost.dw_flops = 0.0;
  return cost;
}

}  // namespace

PartCost layer_cost(const ModelSpec& spec, const DecoderLayerConfig& layer, std::int64_t index, std::int64_t sequence) {
  const bool frozen = !is_trained(spec, layer.attention_norm.name);
  if (index >= spec.num_vision_layers()) return trained_part(cost_of(layer, sequence), false, frozen);
  const std::int64_t tokens = spec.vision->image_tokens();
  const double share = spec.vision->images_per_sample * static_cast<double>(tokens) / static_cast<double>(sequence);
  return trained_part(scaled(cost_of(layer, tokens), share), is_frozen_before(spec, index), frozen);
}

PartCost merge_cost(const ModelSpec& spec, std::int64_t sequence) {
  const double images_a_token = spec.vision->images_per_sample / static_cast<double>(sequence);
  return scaled(cost_of(image_merge_config(spec)), images_a_token);
}

PartCost embedding_cost(const ModelSpec& spec, std::int64_t sequence) {
  if (!spec.vision) return cost_of(embedding_config(spec));
  const double images_a_token = spec.vision->images_per_sample / static_cast<double>(sequence);
  const bool frozen = spec.vision->training != VisionSpec::Training::kAll;
  return trained_part(scaled(cost_of(patch_embedding_config(spec)), images_a_token), true, frozen);
}

}  // namespace ppctl
