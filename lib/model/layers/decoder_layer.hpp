#pragma once

#include <memory>

#include "arch/blueprint.hpp"
#include "model/layers/attention.hpp"
#include "model/layers/feed_forward.hpp"
#include "model/layers/layer.hpp"
#include "model/layers/norm.hpp"

namespace ppctl {

/// A pre-norm decoder layer: h = x + attention(norm(x)), y = h + feed_forward(norm(h)). The additions are done inside
/// the second norm and inside the last matrix product. Dropout, where the family has it, is on what is added.
/// Experts are a group of parameters of their own, since other ranks share them than share the rest.
///
/// What config.recompute names keeps its input alone (of the feed-forward: h) and is run once more in the backward,
/// short of the products that nothing but its output needs.
class DecoderLayer : public Layer {
 public:
  DecoderLayer(const DecoderLayerConfig& config, at::ScalarType dtype, std::shared_ptr<const RotaryEmbedding> rope);

  void bind() override;
  std::vector<ParameterGroup*> groups() override;
  bool trainable() const override;
  at::Tensor forward(const at::Tensor& x, const ForwardContext& context) const override;
  at::Tensor backward(const at::Tensor& dy, const BackwardContext& context) const override;

 private:
  struct Drops {
    kernels::Dropout attention;
    kernels::Dropout feed_forward;
  };
  Drops drops(const Microbatch& microbatch, std::uint64_t seed) const;
  at::Tensor attend(const at::Tensor& x, const ForwardContext& context) const;
  at::Tensor run(const at::Tensor& x, const RecomputeParts& recompute, const ForwardContext& context) const;
  /// Runs the second half again, from h on.
  void recompute_feed_forward(const BackwardContext& context) const;

  DecoderLayerConfig config_;
  Norm attention_norm_;
  Attention attention_;
  Norm feed_forward_norm_;
  std::unique_ptr<ParameterGroup> expert_group_;  ///< null without experts
  std::unique_ptr<FeedForward> feed_forward_;
};

}  // namespace ppctl
