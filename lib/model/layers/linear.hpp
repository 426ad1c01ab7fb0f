#pragma once

#include <string>
#include <vector>

#include "model/layers/weight.hpp"
#include "model/weight_grad_queue.hpp"

namespace ppctl {

/// One or several projections of the same input, computed as one matrix product.
struct LinearOptions {
  enum class Layout { kOutIn, kInOut };  ///< of a weight as stored: torch's Linear, or GPT-2's Conv1D

  struct Part {
    std::string name;  ///< "model.layers.0.self_attn.q_proj": ".weight" and ".bias" follow
    std::int64_t out_features;
  };
  std::int64_t in_features = 0;
  std::vector<Part> parts;  ///< REQUIRES: one part where the layout is kInOut
  bool bias = false;
  Layout layout = Layout::kOutIn;
  double init_stddev = 0.02;
  std::string tied_to;  ///< of the weight; empty: its own
};

/// y = x W^T + b. Stateless but for its weights; the caller keeps what the backward needs.
class Linear {
 public:
  Linear(ParameterGroup& group, const LinearOptions& options);
  void bind();

  /// x: [..., in] -> [..., out]. With `residual` of the result's shape: residual + x W^T + b.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& residual = {}) const;
  /// The gradient of x: dy W.
  at::Tensor input_grad(const at::Tensor& dy) const;
  /// Hands W's (and b's) gradient to the queue; it is added inside the matrix product. Nothing where they are frozen.
  void weight_grad(const at::Tensor& dy, const at::Tensor& x, WeightGradQueue& queue) const;

  bool trainable() const;

 private:
  void accumulate_weight(const at::Tensor& dy, const at::Tensor& x) const;
  void accumulate_bias(const at::Tensor& dy) const;

  LinearOptions::Layout layout_;
  std::int64_t in_features_;
  std::int64_t out_features_ = 0;
  Weight weight_;
  Weight bias_;
  at::Tensor in_out_;  ///< view of the weight as [in, out]
  at::Tensor out_in_;  ///< view of the weight as [out, in]
};

}  // namespace ppctl
