#pragma once

#include <memory>
#include <string>

#include "model/layers/attention.hpp"
#include "model/layers/feed_forward.hpp"
#include "model/layers/layer.hpp"
#include "model/layers/norm.hpp"

namespace ppctl {

/// A pre-norm decoder layer: h = x + attention(norm(x)), y = h + feed_forward(norm(h)). The additions are done inside
/// the second norm and inside the last matrix product. Dropout, where the family has it, is on what is added.
class DecoderLayer : public Layer {
 public:
  struct Config {
    std::string name;
    at::ScalarType dtype = at::kFloat;
    Norm::Kind norm = Norm::Kind::kRms;
    std::string attention_norm;
    std::string feed_forward_norm;
    std::int64_t hidden_size = 0;
    double norm_eps = 1e-6;
    AttentionConfig attention;
    double residual_dropout = 0.0;
    std::uint32_t first_site = 0;  ///< dropout sites first_site (attention) and first_site + 1 (feed-forward)
  };
  /// `make_feed_forward(group)` declares the parameters of the second half.
  template <class MakeFeedForward>
  DecoderLayer(const Config& config, MakeFeedForward&& make_feed_forward)
      : Layer(config.name, config.dtype),
        config_(config),
        attention_norm_(group_, config.norm, config.attention_norm, config.hidden_size, config.norm_eps),
        attention_(group_, config.attention),
        feed_forward_norm_(group_, config.norm, config.feed_forward_norm, config.hidden_size, config.norm_eps),
        feed_forward_(make_feed_forward(group_)) {}

  void bind() override;
  at::Tensor forward(const at::Tensor& x, const ForwardContext& context) const override;
  at::Tensor backward(const at::Tensor& dy, const BackwardContext& context) const override;

 private:
  Config config_;
  Norm attention_norm_;
  Attention attention_;
  Norm feed_forward_norm_;
  std::unique_ptr<FeedForward> feed_forward_;
};

}  // namespace ppctl
