#pragma once

#include <vector>

#include "arch/blueprint.hpp"
#include "arch/model_spec.hpp"
#include "arch/parameter.hpp"

namespace ppctl {

/// The parameters that a part declares: what lib/model allocates and what the memory model counts. Those of one vector
/// are stored merged.
std::vector<Parameter> weights_of(const LinearOptions& options);
/// Empty without bias.
std::vector<Parameter> biases_of(const LinearOptions& options);
Parameter norm_weight(const std::string& name, std::int64_t size);
Parameter norm_bias(const std::string& name, std::int64_t size);
/// The convolution's kernel, [hidden, channels, patch, patch], and the class token, [hidden].
Parameter patch_weight(const PatchEmbeddingConfig& config);
Parameter class_token(const PatchEmbeddingConfig& config);
/// Rows of an embedding.
Parameter table_weight(const std::string& name, std::int64_t rows, std::int64_t columns, double stddev);

/// The whole group of a part, in the order in which lib/model declares it.
GroupLayout layout_of(const TokenEmbeddingConfig& config, std::int64_t element_bytes);
/// What every rank of a stage has in common, experts left out.
GroupLayout layout_of(const DecoderLayerConfig& config, std::int64_t element_bytes);
/// The experts that are held.
GroupLayout layout_of(const MoeConfig& config, std::int64_t element_bytes);
GroupLayout layout_of(const LanguageHeadConfig& config, std::int64_t element_bytes);
GroupLayout layout_of(const PatchEmbeddingConfig& config, std::int64_t element_bytes);
GroupLayout layout_of(const ImageMergeConfig& config, std::int64_t element_bytes);
GroupLayout layout_of(const UnusedPartsConfig& config, std::int64_t element_bytes);

/// All groups of a layer.
std::vector<GroupLayout> layouts_of(const DecoderLayerConfig& config, std::int64_t element_bytes);

/// All parameters of the model in forward order (a multimodal one: what stands apart from its layers first), tied ones
/// included; offsets are within their groups.
std::vector<Parameter> all_parameters(const ModelSpec& spec);

}  // namespace ppctl
