#pragma once

#include <optional>
#include <string>

namespace ppctl {

/// Activation functions under the names of Hugging Face's config.json.
enum class Activation {
  kSilu,       ///< "silu", "swish": x * sigmoid(x)
  kGeluTanh,   ///< "gelu_new", "gelu_pytorch_tanh": the tanh approximation
  kGeluErf,    ///< "gelu"
  kQuickGelu,  ///< "quick_gelu": x * sigmoid(1.702 x)
  kRelu,       ///< "relu"
};
std::optional<Activation> activation_of(const std::string& name);

}  // namespace ppctl
