#pragma once

#include "model/aten.hpp"

#include <cstdint>

namespace ppctl::kernels {

constexpr std::int64_t kIgnoredLabel = -100;

struct TokenLosses {
  double sum = 0.0;             ///< natural logarithm, over labelled tokens
  std::int64_t num_labels = 0;  ///< labels other than kIgnoredLabel
};

/// Softmax cross-entropy of `logits` [..., vocabulary] against int64 `labels` [...]. With `gradient_scale` the logits
/// are overwritten with the gradient of gradient_scale * sum (zero where a label is ignored); without, they stay.
/// Throws Error where a label is neither kIgnoredLabel nor in the vocabulary.
TokenLosses cross_entropy(const at::Tensor& logits, const at::Tensor& labels, const double* gradient_scale);

}  // namespace ppctl::kernels
