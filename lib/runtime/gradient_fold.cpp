#include "runtime/gradient_fold.hpp"

#include <utility>

#include "base/error.hpp"
#include "model/flat_storage.hpp"
#include "runtime/tensor_bytes.hpp"
#include "schedule/mpipe_options.hpp"

namespace ppctl {

GradientFold::GradientFold(Group& ranks, std::vector<at::Tensor> gradients, int num_microbatches, bool are_shards)
    : ranks_(ranks),
      gradients_(std::move(gradients)),
      num_microbatches_(num_microbatches),
      are_shards_(are_shards),
      sums_(gradients_.size()) {}

std::int64_t GradientFold::part_size(std::size_t buffer) const {
  return (gradients_[buffer].numel() + ranks_.size() - 1) / ranks_.size();
}

void GradientFold::clear(const at::Tensor& gradients) const {
  are_shards_ ? release_storage(gradients) : void(gradients.zero_());
}

int GradientFold::owner(int microbatch) const { return mpipe_owner(microbatch, ranks_.size(), num_microbatches_); }

int GradientFold::count_of(int rank) const {
  int count = 0;
  for (int j = 0; j < num_microbatches_; ++j) count += owner(j) == rank ? 1 : 0;
  return count;
}

/// A buffer's gradients by the rank that folds them: [ranks, part], zero behind the last.
at::Tensor GradientFold::padded(std::size_t buffer, const at::Tensor& gradients) const {
  at::Tensor all = at::zeros({ranks_.size() * part_size(buffer)}, gradients.options());
  all.narrow(0, 0, gradients.numel()).copy_(gradients);
  return all.view({ranks_.size(), part_size(buffer)});
}

void GradientFold::resume() {
  for (std::size_t buffer = 0; buffer < gradients_.size(); ++buffer) {
    PPCTL_CHECK(!sums_[buffer].defined(), "a sum of encoder gradients that was not finished");
    sums_[buffer] = padded(buffer, gradients_[buffer])[ranks_.rank()].clone();
    clear(gradients_[buffer]);
  }
}

void GradientFold::keep(int microbatch) {
  std::vector<at::Tensor> kept;
  for (const at::Tensor& gradients : gradients_) {
    kept.push_back(gradients.clone());
    clear(gradients);
  }
  kept_[microbatch] = std::move(kept);
}

/// This rank's part of every microbatch's gradient: [microbatches, part], those of each owner together.
at::Tensor GradientFold::receive_parts(std::size_t buffer, Deadline deadline) {
  const std::int64_t part = part_size(buffer);
  const auto size = static_cast<std::size_t>(ranks_.size());
  const auto options = gradients_[buffer].options();
  const auto own = static_cast<std::int64_t>(kept_.size());
  at::Tensor sent = at::zeros({ranks_.size(), own, part}, options);
  std::int64_t row = 0;
  for (auto& [microbatch, gradients] : kept_) {
    sent.select(1, row++).copy_(padded(buffer, gradients[buffer]));
    gradients[buffer].reset();
  }
  at::Tensor received = at::empty({num_microbatches_, part}, options);
  const std::size_t part_bytes = static_cast<std::size_t>(part) * received.element_size();
  const std::vector<std::size_t> send_sizes(size, static_cast<std::size_t>(own) * part_bytes);
  std::vector<std::size_t> recv_sizes(size);
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    recv_sizes[static_cast<std::size_t>(rank)] = static_cast<std::size_t>(count_of(rank)) * part_bytes;
  }
  ranks_.all_to_all(const_bytes(sent), send_sizes, mutable_bytes(received), recv_sizes)
      ->wait(deadline, "encoder gradients of the microbatches");
  return received;
}

void GradientFold::fold(Deadline deadline) {
  std::vector<std::int64_t> first(static_cast<std::size_t>(ranks_.size()), 0);
  for (int rank = 1; rank < ranks_.size(); ++rank) {
    first[static_cast<std::size_t>(rank)] = first[static_cast<std::size_t>(rank) - 1] + count_of(rank - 1);
  }
  for (std::size_t buffer = 0; buffer < gradients_.size(); ++buffer) {
    const at::Tensor parts = receive_parts(buffer, deadline);
    if (!sums_[buffer].defined()) sums_[buffer] = at::zeros({part_size(buffer)}, parts.options());
    std::vector<std::int64_t> next = first;
    for (int j = 0; j < num_microbatches_; ++j) {
      sums_[buffer].add_(parts[next[static_cast<std::size_t>(owner(j))]++]);
    }
  }
  kept_.clear();
}

void GradientFold::finish(Deadline deadline) {
  for (std::size_t buffer = 0; buffer < gradients_.size(); ++buffer) {
    const at::Tensor sum = std::exchange(sums_[buffer], at::Tensor());
    at::Tensor all = at::empty({ranks_.size() * part_size(buffer)}, sum.options());
    ranks_.all_gather(const_bytes(sum), mutable_bytes(all))->wait(deadline, "sums of encoder gradients");
    if (are_shards_) restore_storage(gradients_[buffer]);
    gradients_[buffer].copy_(all.narrow(0, 0, gradients_[buffer].numel()));
  }
}

}  // namespace ppctl
