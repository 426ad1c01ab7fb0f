#pragma once

#include <deque>
#include <functional>
#include <vector>

namespace ppctl {

/// Weight-gradient work of one stage. While the stage runs BACKWARD the work runs at once; while it runs BACKWARD_INPUT
/// it is queued, one entry a microbatch, and BACKWARD_WEIGHT drains the microbatch's entry, in the order in which it
/// was queued. Nothing is computed twice. Used by one thread at a time.
class WeightGradQueue {
 public:
  using Work = std::function<void()>;

  /// Starts the entry of `microbatch`; what is added until end_microbatch() belongs to it.
  void begin_microbatch(int microbatch, bool defer);
  void end_microbatch();
  /// Runs `work` now, or keeps it with all tensors it holds until the microbatch is drained.
  void add(Work work);
  /// Whether the open entry keeps its work for later. A module that can leave that work undone until then asks this.
  bool defers() const { return defer_; }
  /// Runs and drops the entry of `microbatch`. Throws Bug that names it where there is none.
  void drain(int microbatch);
  /// Whether work of `microbatch` waits to be drained: false also for an entry to which nothing was added.
  bool has_work(int microbatch) const;
  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  /// Drops everything (after a failed step).
  void clear();

 private:
  struct Entry {
    int microbatch;
    std::vector<Work> work;
  };
  std::deque<Entry> entries_;
  int current_ = -1;
  bool defer_ = false;
};

}  // namespace ppctl
