#include "arch/declare.hpp"

#include <utility>

#include "arch/family.hpp"
#include "arch/vision.hpp"

namespace ppctl {
namespace {

void add_linear(GroupLayout& group, const LinearOptions& options) {
  group.add_merged(weights_of(options));
  group.add_merged(biases_of(options));
}

void add_norm(GroupLayout& group, const NormOptions& options) {
  group.add(norm_weight(options.name, options.size));
  if (options.kind == NormKind::kLayer) group.add(norm_bias(options.name, options.size));
}

void add_layer(GroupLayout& group, const DecoderLayerConfig& config) {
  add_norm(group, config.attention_norm);
  add_linear(group, config.attention.qkv);
  add_linear(group, config.attention.output);
  if (config.attention.has_head_norm()) {
    group.add(norm_weight(config.attention.query_norm, config.attention.heads.head_dim));
    group.add(norm_weight(config.attention.key_norm, config.attention.heads.head_dim));
  }
  add_norm(group, config.feed_forward_norm);
  if (config.moe) {
    add_linear(group, config.moe->router);
  } else {
    add_linear(group, config.feed_forward.in);
    add_linear(group, config.feed_forward.down);
  }
}

}  // namespace

std::vector<Parameter> weights_of(const LinearOptions& options) {
  std::vector<Parameter> result;
  for (const LinearOptions::Part& part : options.parts) {
    Parameter parameter;
    parameter.name = part.name + ".weight";
    parameter.shape = {part.out_features, options.in_features};
    if (options.layout == LinearOptions::Layout::kInOut) std::swap(parameter.shape[0], parameter.shape[1]);
    parameter.init = {ParameterInit::Kind::kNormal, options.init_stddev};
    parameter.tied_to = options.tied_to;
    result.push_back(parameter);
  }
  return result;
}

std::vector<Parameter> biases_of(const LinearOptions& options) {
  std::vector<Parameter> result;
  if (!options.bias) return result;
  for (const LinearOptions::Part& part : options.parts) {
    Parameter parameter;
    parameter.name = part.name + ".bias";
    parameter.shape = {part.out_features};
    result.push_back(parameter);
  }
  return result;
}

Parameter norm_weight(const std::string& name, std::int64_t size) {
  Parameter parameter;
  parameter.name = name + ".weight";
  parameter.shape = {size};
  parameter.init.kind = ParameterInit::Kind::kOnes;
  return parameter;
}

Parameter norm_bias(const std::string& name, std::int64_t size) {
  Parameter parameter;
  parameter.name = name + ".bias";
  parameter.shape = {size};
  return parameter;
}

Parameter patch_weight(const PatchEmbeddingConfig& config) {
  Parameter parameter;
  parameter.name = config.patches + ".weight";
  parameter.shape = {config.hidden_size, config.channels, config.patch_size, config.patch_size};
  parameter.init = {ParameterInit::Kind::kNormal, config.init_stddev};
  return parameter;
}

Parameter class_token(const PatchEmbeddingConfig& config) {
  Parameter parameter;
  parameter.name = config.class_token;
  parameter.shape = {config.hidden_size};
  parameter.init = {ParameterInit::Kind::kNormal, config.init_stddev};
  return parameter;
}

Parameter table_weight(const std::string& name, std::int64_t rows, std::int64_t columns, double stddev) {
  Parameter parameter;
  parameter.name = name + ".weight";
  parameter.shape = {rows, columns};
  parameter.init = {ParameterInit::Kind::kNormal, stddev};
  return parameter;
}

GroupLayout layout_of(const TokenEmbeddingConfig& config, std::int64_t element_bytes) {
  GroupLayout group(element_bytes);
  group.add(table_weight(config.tokens, config.vocab_size, config.hidden_size, config.init_stddev));
  if (!config.positions.empty()) {
    group.add(table_weight(config.positions, config.max_positions, config.hidden_size, config.init_stddev));
  }
  return group;
}

GroupLayout layout_of(const DecoderLayerConfig& config, std::int64_t element_bytes) {
  GroupLayout group(element_bytes);
  add_layer(group, config);
  return group;
}

GroupLayout layout_of(const MoeConfig& config, std::int64_t element_bytes) {
  GroupLayout group(element_bytes, GroupKind::kExperts);
  add_linear(group, config.gate_up);
  add_linear(group, config.down);
  return group;
}

std::vector<GroupLayout> layouts_of(const DecoderLayerConfig& config, std::int64_t element_bytes) {
  std::vector<GroupLayout> groups{layout_of(config, element_bytes)};
  if (config.moe) groups.push_back(layout_of(*config.moe, element_bytes));
  return groups;
}

GroupLayout layout_of(const LanguageHeadConfig& config, std::int64_t element_bytes) {
  GroupLayout group(element_bytes);
  add_norm(group, config.norm);
  add_linear(group, config.projection);
  return group;
}

GroupLayout layout_of(const PatchEmbeddingConfig& config, std::int64_t element_bytes) {
  GroupLayout group(element_bytes);
  group.add(class_token(config));
  group.add(patch_weight(config));
  group.add(table_weight(config.positions, config.tokens(), config.hidden_size, config.init_stddev));
  add_norm(group, config.norm);
  return group;
}

GroupLayout layout_of(const ImageMergeConfig& config, std::int64_t element_bytes) {
  GroupLayout group(element_bytes);
  add_linear(group, config.in);
  add_linear(group, config.out);
  const TokenEmbeddingConfig& tokens = config.tokens;
  group.add(table_weight(tokens.tokens, tokens.vocab_size, tokens.hidden_size, tokens.init_stddev));
  return group;
}

GroupLayout layout_of(const UnusedPartsConfig& config, std::int64_t element_bytes) {
  GroupLayout parts(element_bytes);
  for (const DecoderLayerConfig& layer : config.layers) add_layer(parts, layer);
  add_norm(parts, config.norm);
  GroupLayout group(element_bytes);  // nothing computes with them, so nothing is merged
  for (Parameter& parameter : parts.parameters()) {
    parameter.trainable = false;
    group.add(parameter);
  }
  return group;
}

std::vector<Parameter> all_parameters(const ModelSpec& spec) {
  constexpr std::int64_t kElementBytes = 4;
  std::vector<Parameter> result;
  const auto append = [&result](const GroupLayout& group) {
    result.insert(result.end(), group.parameters().begin(), group.parameters().end());
  };
  if (spec.vision) {
    append(layout_of(patch_embedding_config(spec), kElementBytes));
    append(layout_of(unused_parts_config(spec), kElementBytes));
    append(layout_of(image_merge_config(spec), kElementBytes));
  } else {
    append(layout_of(embedding_config(spec), kElementBytes));
  }
  for (std::int64_t i = 0; i < spec.num_layers; ++i) {
    for (const GroupLayout& group : layouts_of(layer_config(spec, i), kElementBytes)) append(group);
  }
  append(layout_of(head_config(spec), kElementBytes));
  return result;
}

}  // namespace ppctl
