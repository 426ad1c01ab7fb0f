#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace ppctl {

/// Counts bytes that are live, and the most that ever were.
class MemoryAccount {
 public:
  void add(std::int64_t bytes) {
    live_ += bytes;
    peak_ = std::max(peak_, live_);
  }
  void remove(std::int64_t bytes) { live_ -= bytes; }
  std::int64_t live() const { return live_; }
  std::int64_t peak() const { return peak_; }
  void reset_peak() { peak_ = live_; }

 private:
  std::int64_t live_ = 0;
  std::int64_t peak_ = 0;
};

/// A tensor of which nothing but its memory exists. Copies share it, as tensors do, and the last one frees it.
class SketchTensor {
 public:
  SketchTensor() = default;
  /// `account` must outlive the tensor.
  SketchTensor(MemoryAccount& account, std::int64_t bytes) : block_(std::make_shared<Block>(account, bytes)) {}

  bool defined() const { return block_ != nullptr; }
  std::int64_t bytes() const { return block_ == nullptr ? 0 : block_->bytes; }
  /// Whether both are the same memory.
  bool is_alias_of(const SketchTensor& other) const { return block_ == other.block_; }
  /// Tells the memory apart from all other, without keeping it.
  std::weak_ptr<const void> identity() const { return block_; }

 private:
  struct Block {
    Block(MemoryAccount& of, std::int64_t size) : account(of), bytes(size) { account.add(bytes); }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    ~Block() { account.remove(bytes); }
    MemoryAccount& account;
    std::int64_t bytes;
  };
  std::shared_ptr<Block> block_;
};

/// What a stage computes on, and where its tensors are counted.
struct SketchShape {
  std::int64_t samples = 1;        ///< of a microbatch
  std::int64_t sequence = 1;       ///< tokens a sample
  std::int64_t element_bytes = 4;  ///< of parameters and activations

  std::int64_t tokens() const { return samples * sequence; }
  /// Statistics of norms and attention are kept in float32 where activations are shorter.
  std::int64_t accumulator_bytes() const { return std::max<std::int64_t>(element_bytes, 4); }
};

/// Deferred work: the tensors that it holds, and what it allocates while it runs.
struct SketchWork {
  std::vector<SketchTensor> tensors;
  std::int64_t transient_bytes = 0;
};

/// The counterpart of SavedActivations, WeightGradQueue and the contexts of lib/model's layers.
struct Sketch {
  SketchShape shape;
  MemoryAccount& account;
  std::vector<SketchTensor> saved;
  std::vector<SketchWork> queue;
  bool defer = false;
  bool saves = true;                                         ///< false: nobody keeps what is saved
  std::vector<std::pair<std::size_t, std::size_t>> swapped;  ///< ranges of `saved` that may leave memory

  /// A part whose forward saves nothing, while the object lives.
  class Pause {
   public:
    explicit Pause(Sketch& sketch, bool pauses = true) : sketch_(sketch), before_(sketch.saves) {
      if (pauses) sketch.saves = false;
    }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    ~Pause() { sketch_.saves = before_; }

   private:
    Sketch& sketch_;
    bool before_;
  };

  SketchTensor activation(std::int64_t width) const { return {account, shape.tokens() * width * shape.element_bytes}; }
  SketchTensor statistics(std::int64_t per_token) const {
    return {account, shape.tokens() * per_token * shape.accumulator_bytes()};
  }
  SketchTensor copy_of(const SketchTensor& tensor) const { return {account, tensor.bytes()}; }
  void save(const SketchTensor& tensor) {
    if (saves) saved.push_back(tensor);
  }
  SketchTensor pop() {
    SketchTensor last = std::move(saved.back());
    saved.pop_back();
    return last;
  }
  /// Runs now, or waits with its tensors until the queue is drained.
  void add_work(SketchWork work) {
    if (defer) {
      queue.push_back(std::move(work));
    } else {
      run(work);
    }
  }
  /// Each piece is dropped once it ran.
  void drain() {
    for (SketchWork& work : queue) {
      run(work);
      work.tensors.clear();
    }
    queue.clear();
  }

 private:
  void run(const SketchWork& work) const { const SketchTensor transient(account, work.transient_bytes); }
};

}  // namespace ppctl
