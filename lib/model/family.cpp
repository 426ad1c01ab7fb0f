#include "model/family.hpp"

#include <utility>

#include "arch/declare.hpp"
#include "arch/vision.hpp"
#include "base/error.hpp"
#include "model/decoder_stage.hpp"
#include "model/layers/image_merge.hpp"

namespace ppctl {
namespace {

void add_source(const ModelSpec& spec, at::ScalarType dtype, DecoderParts& parts) {
  if (spec.vision) {
    parts.patches = std::make_unique<PatchEmbedding>(patch_embedding_config(spec), dtype);
  } else {
    parts.embedding = std::make_unique<TokenEmbedding>(embedding_config(spec), dtype);
  }
}

std::unique_ptr<ParameterGroup> unused_group(const ModelSpec& spec, at::ScalarType dtype) {
  const UnusedPartsConfig config = unused_parts_config(spec);
  auto group = std::make_unique<ParameterGroup>(config.name, dtype);
  const GroupLayout layout = layout_of(config, static_cast<std::int64_t>(c10::elementSize(dtype)));
  for (const Parameter& parameter : layout.parameters()) group->add(parameter);
  return group;
}

void freeze(const ModelSpec& spec, DecoderParts& parts) {
  const auto freeze_group = [&](ParameterGroup& group) {
    for (Parameter& parameter : group.parameters()) parameter.trainable &= is_trained(spec, parameter.name);
  };
  if (parts.patches != nullptr) freeze_group(parts.patches->group());
  for (const auto& layer : parts.layers) {
    for (ParameterGroup* group : layer->groups()) freeze_group(*group);
  }
  if (parts.head != nullptr) freeze_group(parts.head->group());
}

}  // namespace

std::shared_ptr<StageModule> build_stage(const ModelSpec& spec, at::ScalarType dtype, const StageRange& range,
                                         std::uint64_t dropout_seed) {
  PPCTL_CHECK(0 <= range.first_layer && range.first_layer <= range.last_layer && range.last_layer <= spec.num_layers,
              "layers {} .. {} of {}", range.first_layer, range.last_layer, spec.num_layers);
  const auto rope =
      spec.learned_positions ? nullptr : std::make_shared<const RotaryEmbedding>(spec.rope, spec.head_dim);
  DecoderParts parts;
  if (range.has_embedding) add_source(spec, dtype, parts);
  if (merges_images(spec, range)) parts.unused = unused_group(spec, dtype);
  for (std::int64_t i = range.first_layer; i < range.last_layer; ++i) {
    if (merges_images(spec, range) && i == spec.num_vision_layers()) {
      parts.layers.push_back(std::make_unique<ImageMerge>(image_merge_config(spec), dtype));
    }
    std::unique_ptr<Layer> layer = std::make_unique<DecoderLayer>(layer_config(spec, range, i), dtype, rope);
    parts.layers.push_back(range.activations_of(i).swapped ? swap_wrapper(std::move(layer)) : std::move(layer));
  }
  if (range.has_head) parts.head = std::make_unique<LanguageHead>(head_config(spec), dtype);
  parts.aux_loss = aux_loss_config(spec);
  parts.needs_input_grad = !is_frozen_before(spec, range.first_layer);
  freeze(spec, parts);
  return std::make_shared<DecoderStage>(std::move(parts), dropout_seed);
}

}  // namespace ppctl
