#pragma once

#include <utility>

#include "model/stage_module.hpp"

namespace ppctl {

/// While it lives, tensors that autograd saves on this thread for a backward are noted in `saved`, as far as a
/// SwapScope is around what saves them. AutogradModule makes one around each forward.
class SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedActivations& saved);
  ~SavedTensorScope();
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;

 private:
  SavedActivations* before_;
};

/// Around a layer whose saved tensors may be swapped. LibTorch has no default saved-tensor hooks in C++; the door to
/// them is the engine, which the first scope of a program replaces by one that asks the thread's scopes.
class SwapScope {
 public:
  SwapScope();
  ~SwapScope();
  SwapScope(const SwapScope&) = delete;
  SwapScope& operator=(const SwapScope&) = delete;
};

/// A layer of the user's own, any callable, inside the forward of an AutogradModule: what autograd saves in it may
/// leave memory until the backward, where the schedule has the steps for it (PassOptions::swap) and the executor the
/// machinery (ActivationSwap). What others hold too (parameters, buffers, the stage's inputs and outputs) stays.
template <class Callable>
auto swap_wrapper(Callable layer) {
  return [layer = std::move(layer)](auto&&... inputs) mutable {
    const SwapScope scope;
    return layer(std::forward<decltype(inputs)>(inputs)...);
  };
}

}  // namespace ppctl
