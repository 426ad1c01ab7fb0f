#pragma once

#include "arch/blueprint.hpp"
#include "model/layers/layer.hpp"
#include "model/layers/norm.hpp"
#include "model/layers/weight.hpp"

namespace ppctl {

/// Images to the first hidden state of a vision tower. The convolution, whose stride is its size, is one matrix product
/// over unfolded patches. All of it works on no images too. Nobody waits for the gradient of pixels.
class PatchEmbedding {
 public:
  PatchEmbedding(const PatchEmbeddingConfig& config, at::ScalarType dtype);
  PatchEmbedding(const PatchEmbedding&) = delete;
  PatchEmbedding& operator=(const PatchEmbedding&) = delete;

  ParameterGroup& group() { return group_; }
  bool trainable() const { return group_.trainable(); }
  void bind();

  /// pixels: [images, channels, size, size], of any float dtype -> [images, patches + 1, hidden], class token first.
  /// Throws Error where the pixels have another shape.
  at::Tensor forward(const at::Tensor& pixels, const ForwardContext& context) const;
  void backward(const at::Tensor& dy, const BackwardContext& context) const;

  /// What a microbatch without images has for pixels.
  at::Tensor no_pixels() const;

 private:
  at::Tensor unfold(const at::Tensor& pixels) const;

  PatchEmbeddingConfig config_;
  ParameterGroup group_;
  Weight class_token_;
  Weight patches_;
  Weight positions_;
  Norm norm_;
};

}  // namespace ppctl
