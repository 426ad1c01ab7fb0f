#pragma once

#include <map>
#include <string>

#include "arch/model_spec.hpp"
#include "model/aten.hpp"

namespace ppctl::testing_support {

/// The features of images, [images * features, the language model's hidden size]: CLIP's vision tower up to its last
/// used layer and LLaVA's projector, as a plain composition of torch operators. pixels: [images, channels, size, size].
at::Tensor reference_image_features(const ModelSpec& spec, const std::map<std::string, at::Tensor>& parameters,
                                    const at::Tensor& pixels);

}  // namespace ppctl::testing_support
