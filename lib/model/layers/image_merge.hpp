#pragma once

#include "arch/blueprint.hpp"
#include "model/layers/layer.hpp"
#include "model/layers/linear.hpp"
#include "model/layers/weight.hpp"

namespace ppctl {

/// Where images enter a language model: see ImageMergeConfig. Takes the vision tower's hidden states [images, patches +
/// 1, tower's hidden] as a layer takes its input, and the microbatch's token ids. Image k of the microbatch, in the
/// order of samples, has the k-th run of features_per_image() image tokens.
class ImageMerge : public Layer {
 public:
  ImageMerge(const ImageMergeConfig& config, at::ScalarType dtype);

  void bind() override;
  /// Throws Error where image tokens and images do not fit each other.
  at::Tensor forward(const at::Tensor& x, const ForwardContext& context) const override;
  /// Undefined where nobody waits for the gradient of the hidden states.
  at::Tensor backward(const at::Tensor& dy, const BackwardContext& context) const override;

 private:
  at::Tensor project(const at::Tensor& x, const ForwardContext& context) const;
  at::Tensor project_backward(const at::Tensor& dfeatures, const BackwardContext& context) const;

  ImageMergeConfig config_;
  Linear in_;
  Linear out_;
  Weight tokens_;
};

/// The token ids of a microbatch: "input_ids" of its kwargs, or its first positional input. int64 [batch, sequence].
at::Tensor input_ids(const Microbatch& microbatch);

}  // namespace ppctl
