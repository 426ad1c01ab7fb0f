#include "runtime/swap_wrapper.hpp"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>
#include <mutex>

namespace ppctl {
namespace {

// Autograd asks the engine for hooks without saying for whom, so what is noted where is a matter of the thread.
thread_local SavedActivations* noted_in = nullptr;
thread_local int scopes = 0;

/// Keeps the tensor as autograd would. A tensor without its history: one with it would hold itself through its graph.
class NotingHooks : public torch::autograd::SavedVariableHooks {
 public:
  void call_pack_hook(const at::Tensor& tensor) override {
    tensor_ = tensor.detach();
    noted_in->swapped_elsewhere.emplace_back(
        c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>(tensor_.getIntrusivePtr()));
  }
  at::Tensor call_unpack_hook() override { return tensor_; }

 private:
  at::Tensor tensor_;
};

class NotingEngine : public torch::autograd::Engine {
 public:
  static Engine& instance() {
    static auto* const engine = new NotingEngine();  // never destroyed, as torch's own: threads may outlive statics
    return *engine;
  }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    if (noted_in == nullptr || scopes == 0) return nullptr;
    return std::make_unique<NotingHooks>();
  }
};

}  // namespace

SavedTensorScope::SavedTensorScope(SavedActivations& saved) : before_(std::exchange(noted_in, &saved)) {}
SavedTensorScope::~SavedTensorScope() { noted_in = before_; }

SwapScope::SwapScope() {
  static std::once_flag installed;
  std::call_once(installed, [] { torch::autograd::set_default_engine_stub(&NotingEngine::instance); });
  ++scopes;
}
SwapScope::~SwapScope() { --scopes; }

}  // namespace ppctl
