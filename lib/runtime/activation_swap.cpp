#include "runtime/activation_swap.hpp"

#include <malloc.h>

#include <map>
#include <set>

#include "base/error.hpp"
#include "model/flat_storage.hpp"

namespace ppctl {
namespace {

/// What swap_wrapper() is around, each tensor once, and by their memory.
class Candidates {
 public:
  explicit Candidates(const SavedActivations& saved) {
    for (const SavedActivations::Range& range : saved.swapped) {
      for (std::size_t i = range.begin; i < range.end; ++i) add(saved.tensors[i]);
    }
    for (const SavedActivations::WeakTensor& weak : saved.swapped_elsewhere) {
      if (auto strong = weak.lock()) add(at::Tensor(std::move(strong)));
    }
  }

  const TensorList& tensors() const { return tensors_; }
  /// Whether nobody but the candidates holds the memory.
  bool are_alone_with(const at::Tensor& tensor) const {
    const c10::Storage& storage = tensor.storage();
    return storage.use_count() == holders_.at(storage.unsafeGetStorageImpl());
  }

 private:
  void add(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage() || tensor.storage().nbytes() == 0) return;
    if (!seen_.insert(tensor.unsafeGetTensorImpl()).second) return;
    ++holders_[tensor.storage().unsafeGetStorageImpl()];
    tensors_.push_back(tensor);
  }

  TensorList tensors_;
  std::set<const void*> seen_;
  std::map<const void*, std::size_t> holders_;
};

std::set<const void*> storages_to_leave(PipelineStage& stage, int microbatch) {
  std::set<const void*> result = stage.boundary(microbatch);
  const auto add = [&result](const at::Tensor& tensor) {
    if (tensor.defined() && tensor.has_storage()) result.insert(tensor.storage().unsafeGetStorageImpl());
  };
  const Microbatch& inputs = stage.microbatch(microbatch);
  for (const at::Tensor& tensor : inputs.args) add(tensor);
  for (const auto& [name, tensor] : inputs.kwargs) add(tensor);
  for (const ParameterGroup* group : stage.module().parameter_groups()) {
    add(group->flat_data());
    add(group->flat_grad());
  }
  return result;
}

/// Less than this is not given back to the system, which takes a walk along the heap.
constexpr std::size_t kWorthReturning = std::size_t{4} << 20;

std::size_t bytes_of(const TensorList& tensors) {
  std::size_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += tensor.storage().nbytes();
  return bytes;
}

}  // namespace

TensorList movable_tensors(PipelineStage& stage, int microbatch) {
  const Candidates candidates(stage.saved(microbatch));
  std::set<const void*> left = storages_to_leave(stage, microbatch);
  TensorList result;
  for (const at::Tensor& tensor : candidates.tensors()) {
    if (!tensor.device().is_cpu() || !candidates.are_alone_with(tensor)) continue;
    if (left.insert(tensor.storage().unsafeGetStorageImpl()).second) result.push_back(tensor);
  }
  return result;
}

ActivationSwap::ActivationSwap(std::unique_ptr<SwapStore> store, double timeout_s)
    : store_(std::move(store)), timeout_s_(timeout_s) {
  PPCTL_CHECK(store_ != nullptr, "no store to swap to");
}

ActivationSwap::Key ActivationSwap::key_of(const StepContext& context) {
  return {context.stage().stage().value, context.microbatch().index};
}

ActivationSwap::Chunk* ActivationSwap::chunk_of(const StepContext& context) {
  const auto found = chunks_.find(key_of(context));
  return found == chunks_.end() ? nullptr : &found->second;
}

Deadline ActivationSwap::deadline() const { return Deadline::after_seconds(timeout_s_); }

void ActivationSwap::launch_offload(StepContext& context) {
  const Key key = key_of(context);
  auto tensors = std::make_shared<const TensorList>(movable_tensors(context.stage(), key.second));
  if (tensors->empty()) return;
  const std::size_t bytes = bytes_of(*tensors);
  const SwapStore::Slot slot = store_->take(bytes);
  ++stats_.offloads;
  stats_.bytes += static_cast<std::int64_t>(bytes);
  const CopyLane::Ticket ticket = offloads_.start([this, tensors, slot] {
    std::vector<std::span<const std::byte>> parts;
    for (const at::Tensor& tensor : *tensors) {
      parts.emplace_back(static_cast<const std::byte*>(tensor.storage().data()), tensor.storage().nbytes());
    }
    store_->write(slot, parts);
  });
  chunks_[key] = {std::move(tensors), slot, ticket};
}

void ActivationSwap::wait_offload(StepContext& context) {
  Chunk* chunk = chunk_of(context);
  if (chunk == nullptr) return;
  const Nanoseconds start = monotonic_now();
  offloads_.wait(chunk->ticket, deadline(), "an offload");
  stats_.offload_wait += monotonic_now() - start;
  for (const at::Tensor& tensor : *chunk->tensors) release_storage(tensor);
  // A heap that keeps what is freed, in pieces between what lives, would let the resident set grow on.
  if (bytes_of(*chunk->tensors) >= kWorthReturning) ::malloc_trim(0);
}

void ActivationSwap::launch_load(StepContext& context) {
  Chunk* chunk = chunk_of(context);
  if (chunk == nullptr) return;
  for (const at::Tensor& tensor : *chunk->tensors) restore_storage(tensor);
  chunk->ticket = loads_.start([this, tensors = chunk->tensors, slot = chunk->slot] {
    std::vector<std::span<std::byte>> parts;
    for (const at::Tensor& tensor : *tensors) {
      parts.emplace_back(static_cast<std::byte*>(tensor.storage().mutable_data()), tensor.storage().nbytes());
    }
    store_->read(slot, parts);
  });
}

void ActivationSwap::wait_load(StepContext& context) {
  Chunk* chunk = chunk_of(context);
  if (chunk == nullptr) return;
  const Nanoseconds start = monotonic_now();
  loads_.wait(chunk->ticket, deadline(), "a load");
  stats_.load_wait += monotonic_now() - start;
  store_->give(chunk->slot);
  chunks_.erase(key_of(context));
}

}  // namespace ppctl
