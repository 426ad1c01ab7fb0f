#include "model/weight_grad_queue.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace ppctl {

void WeightGradQueue::begin_microbatch(int microbatch, bool defer) {
  PPCTL_CHECK(current_ == -1, "the entry of microbatch {} is still open", current_);
  PPCTL_CHECK(microbatch >= 0, "microbatch {}", microbatch);
  current_ = microbatch;
  defer_ = defer;
  if (defer) entries_.push_back({microbatch, {}});
}

void WeightGradQueue::end_microbatch() {
  PPCTL_CHECK(current_ != -1, "no entry is open");
  current_ = -1;
  defer_ = false;
}

void WeightGradQueue::add(Work work) {
  PPCTL_CHECK(current_ != -1, "weight-gradient work outside of a backward");
  if (defer_) {
    entries_.back().work.push_back(std::move(work));
  } else {
    work();
  }
}

void WeightGradQueue::drain(int microbatch) {
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [microbatch](const Entry& candidate) { return candidate.microbatch == microbatch; });
  PPCTL_CHECK(entry != entries_.end(), "no weight gradients are queued for microbatch {}", microbatch);
  PPCTL_CHECK(current_ != microbatch, "the entry of microbatch {} is still open", microbatch);
  // Each piece is dropped once it ran, so that its tensors are freed before the next one allocates.
  std::vector<Work> pieces = std::move(entry->work);
  entries_.erase(entry);
  for (Work& work : pieces) {
    work();
    work = nullptr;
  }
}

bool WeightGradQueue::has_work(int microbatch) const {
  return std::ranges::any_of(
      entries_, [microbatch](const Entry& entry) { return entry.microbatch == microbatch && !entry.work.empty(); });
}

void WeightGradQueue::clear() {
  entries_.clear();
  current_ = -1;
  defer_ = false;
}

}  // namespace ppctl
