#pragma once

#include <cstdint>
#include <memory>

#include "model/expert_exchange.hpp"
#include "model/stage_module.hpp"

namespace ppctl {

/// How a layer with experts reaches those on other ranks.
struct ExpertAccess {
  ExpertExchange* exchange = nullptr;  ///< null where all experts are here
  bool is_last_layer = false;          ///< see ExpertTransfer
};

/// What a layer's forward may use beside its input.
struct ForwardContext {
  const Microbatch& microbatch;
  SavedActivations* saved;  ///< null where no backward follows
  std::uint64_t seed = 0;   ///< of dropout
  /// A forward that is run again, by the thread of the backward: what it saves is used at once.
  bool recomputed = false;
  /// False: only what is saved is of use. What nothing but the output needs may be left out, exchanges between ranks
  /// too (every rank leaves them out), and an undefined tensor returned.
  bool wants_output = true;
  ExpertAccess experts = {};
  /// Where there is an auxiliary loss: float64, [2, experts]; a layer adds how many of its tokens chose each expert,
  /// and the sums of their probabilities.
  at::Tensor router_sums = {};

  void save(const at::Tensor& tensor) const {
    if (saved != nullptr) saved->push(tensor);
  }
  /// The same for a part that is recomputed: it saves nothing.
  ForwardContext without_saving() const {
    ForwardContext context = *this;
    context.saved = nullptr;
    return context;
  }
  ForwardContext for_output(bool wanted) const {
    ForwardContext context = *this;
    context.wants_output = wanted;
    return context;
  }
};

/// What a layer's backward may use. Tensors come back from `saved` in reverse order.
struct BackwardContext {
  const Microbatch& microbatch;
  SavedActivations& saved;
  WeightGradQueue& queue;
  std::uint64_t seed = 0;
  ExpertAccess experts = {};
  at::Tensor router_grad = {};  ///< float64, [experts]: of the sums of probabilities; undefined without auxiliary loss

  /// For a forward that is run again; what it saves, the backward takes back. Router sums are not made a second time.
  ForwardContext recompute() const {
    return {microbatch, &saved, seed, /*recomputed=*/true, /*wants_output=*/true, experts};
  }
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

  /// What all data-parallel ranks have of it, then its experts, if it has some.
  virtual std::vector<ParameterGroup*> groups() { return {&group_}; }
  virtual bool trainable() const { return group_.trainable(); }
  /// Takes the views of the allocated group. Call once, before the first forward.
  virtual void bind() = 0;

  /// Whether swap_wrapper() is around it.
  bool swaps() const { return swaps_; }
  void set_swaps(bool swaps) { swaps_ = swaps; }

 protected:
  ParameterGroup group_;

 private:
  bool swaps_ = false;
};

/// What `layer` saves may leave memory between its forward and its backward, where the schedule has the steps for it
/// (PassOptions::swap) and the executor the machinery (ActivationSwap).
inline std::unique_ptr<Layer> swap_wrapper(std::unique_ptr<Layer> layer) {
  layer->set_swaps(true);
  return layer;
}

}  // namespace ppctl
