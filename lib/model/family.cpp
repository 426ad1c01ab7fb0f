#include "model/family.hpp"

#include <utility>

#include "base/error.hpp"
#include "model/decoder_stage.hpp"

namespace ppctl {

std::shared_ptr<StageModule> build_stage(const ModelSpec& spec, at::ScalarType dtype, const StageRange& range,
                                         std::uint64_t dropout_seed) {
  PPCTL_CHECK(0 <= range.first_layer && range.first_layer <= range.last_layer && range.last_layer <= spec.num_layers,
              "layers {} .. {} of {}", range.first_layer, range.last_layer, spec.num_layers);
  const auto rope =
      spec.learned_positions ? nullptr : std::make_shared<const RotaryEmbedding>(spec.rope, spec.head_dim);
  DecoderParts parts;
  if (range.has_embedding) parts.embedding = std::make_unique<TokenEmbedding>(embedding_config(spec), dtype);
  for (std::int64_t i = range.first_layer; i < range.last_layer; ++i) {
    std::unique_ptr<Layer> layer = std::make_unique<DecoderLayer>(layer_config(spec, range, i), dtype, rope);
    parts.layers.push_back(range.activations_of(i).swapped ? swap_wrapper(std::move(layer)) : std::move(layer));
  }
  if (range.has_head) parts.head = std::make_unique<LanguageHead>(head_config(spec), dtype);
  parts.aux_loss = aux_loss_config(spec);
  return std::make_shared<DecoderStage>(std::move(parts), dropout_seed);
}

}  // namespace ppctl
