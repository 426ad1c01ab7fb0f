#pragma once

#include "arch/blueprint.hpp"
#include "model/layers/layer.hpp"
#include "model/layers/linear.hpp"
#include "model/layers/norm.hpp"

namespace ppctl {

/// The end of a language model: final norm, projection to the vocabulary, cross-entropy. The gradient of the logits
/// replaces them in the forward, so that only one such matrix exists.
class LanguageHead {
 public:
  LanguageHead(const LanguageHeadConfig& config, at::ScalarType dtype);
  LanguageHead(const LanguageHead&) = delete;
  LanguageHead& operator=(const LanguageHead&) = delete;

  ParameterGroup& group() { return group_; }
  void bind();

  /// Logits [batch, sequence, vocabulary] where `labels` is undefined. With labels: fills `loss` (which may be null)
  /// and returns an undefined tensor.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& labels, const ForwardContext& context,
                     LossReport* loss) const;
  /// `dlogits` is undefined where the forward had labels.
  at::Tensor backward(const at::Tensor& dlogits, const BackwardContext& context) const;

 private:
  ParameterGroup group_;
  Norm norm_;
  Linear projection_;
};

}  // namespace ppctl
