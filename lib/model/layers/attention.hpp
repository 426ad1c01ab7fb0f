#pragma once

#include <memory>

#include "arch/blueprint.hpp"
#include "model/kernels/attention.hpp"
#include "model/layers/layer.hpp"
#include "model/layers/linear.hpp"
#include "model/layers/rotary_embedding.hpp"

namespace ppctl {

/// Self-attention from the normalised input to the output projection. With rotary embedding, "position_ids" of the
/// microbatch's kwargs (int64, [batch, sequence]) replaces 0 .. sequence - 1 where it is given.
class Attention {
 public:
  /// `rope` may be null where the config is not rotary.
  Attention(ParameterGroup& group, AttentionConfig config, std::shared_ptr<const RotaryEmbedding> rope);
  void bind();
  at::Tensor forward(const at::Tensor& x, const ForwardContext& context) const;
  at::Tensor backward(const at::Tensor& dy, const BackwardContext& context) const;

 private:
  kernels::AttentionOptions options(const Microbatch& microbatch, std::uint64_t seed) const;
  /// Tables and positions of a microbatch; the positions are undefined where they are 0 .. sequence - 1.
  struct Rotation {
    std::shared_ptr<const RotaryEmbedding::Tables> tables;
    at::Tensor positions;
  };
  Rotation rotation(const Microbatch& microbatch, std::int64_t sequence) const;

  AttentionConfig config_;
  std::shared_ptr<const RotaryEmbedding> rope_;  ///< null: none
  Linear qkv_;
  Linear output_;
  Weight query_norm_;
  Weight key_norm_;
};

/// Where a microbatch says which position each of its tokens has: int64 [batch, sequence]; undefined: 0 .. sequence
/// - 1.
at::Tensor position_ids(const Microbatch& microbatch);

/// The numbers that one place of a model draws for dropout; inactive outside of training.
kernels::Dropout dropout_of(const Microbatch& microbatch, double probability, std::uint32_t site, std::uint64_t seed);

}  // namespace ppctl
