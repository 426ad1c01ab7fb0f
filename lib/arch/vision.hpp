#pragma once

#include <string>
#include <vector>

#include "arch/blueprint.hpp"
#include "arch/model_spec.hpp"

namespace ppctl {

/// The parts that a multimodal model has beside those of a language model. In forward order: the patch embedding, the
/// vision tower's used layers (layers 0 .. num_vision_layers() - 1 of the model), the merge, the text layers, the head.
/// REQUIRES of all: spec.vision.
PatchEmbeddingConfig patch_embedding_config(const ModelSpec& spec);
ImageMergeConfig image_merge_config(const ModelSpec& spec);
UnusedPartsConfig unused_parts_config(const ModelSpec& spec);

/// Whether training changes a parameter of that name, by the job's choice of what it trains.
bool is_trained(const ModelSpec& spec, const std::string& parameter);
/// Whether nothing before layer `layer` is trained, so that nobody waits for the gradient of its input.
bool is_frozen_before(const ModelSpec& spec, std::int64_t layer);

/// Other names under which checkpoints hold a parameter: with and without "vision_model.", and the nesting of newer
/// modules ("model.vision_tower.", "model.language_model.", "lm_head.weight").
std::vector<std::string> other_names(const ModelSpec& spec, const std::string& parameter);

}  // namespace ppctl
