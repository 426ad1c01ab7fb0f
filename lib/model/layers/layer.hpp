#pragma once

#include <cstdint>

#include "model/stage_module.hpp"

namespace ppctl {

/// What a layer's forward may use beside its input.
struct ForwardContext {
  const Microbatch& microbatch;
  SavedActivations* saved;  ///< null where no backward follows
  std::uint64_t seed = 0;   ///< of dropout

  void save(const at::Tensor& tensor) const {
    if (saved != nullptr) saved->push(tensor);
  }
};

/// What a layer's backward may use. Tensors come back from `saved` in reverse order.
struct BackwardContext {
  const Microbatch& microbatch;
  SavedActivations& saved;
  WeightGradQueue& queue;
  std::uint64_t seed = 0;
};

/// One unit of a stage with parameters of its own: a decoder layer. Derivatives are written by hand: backward takes the
/// gradient of the output, hands weight gradients to the queue and returns the gradient of the input. Forward and
/// backward change nothing but `saved` and gradients, so two threads may run them for different microbatches.
class Layer {
 public:
  Layer(std::string name, at::ScalarType dtype) : group_(std::move(name), dtype) {}
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  virtual ~Layer() = default;

  /// x and the result: [batch, sequence, hidden].
  virtual at::Tensor forward(const at::Tensor& x, const ForwardContext& context) const = 0;
  virtual at::Tensor backward(const at::Tensor& dy, const BackwardContext& context) const = 0;

  ParameterGroup& group() { return group_; }
  const ParameterGroup& group() const { return group_; }
  /// Takes the views of the allocated group. Call once, before the first forward.
  virtual void bind() = 0;

 protected:
  ParameterGroup group_;
};

}  // namespace ppctl
