#include "runtime/gradient_fold.hpp"

#include <utility>

#include "base/error.hpp"
#include "runtime/tensor_bytes.hpp"
#include "schedule/mpipe_options.hpp"

namespace ppctl {

GradientFold::GradientFold(Group& ranks, std::vector<ParameterGroup*> groups, int num_microbatches)
    : ranks_(ranks), num_microbatches_(num_microbatches) {
  for (ParameterGroup* group : groups) {
    if (group->trainable()) groups_.push_back(group);
  }
  sums_.resize(groups_.size());
}

std::int64_t GradientFold::part_size(std::size_t group) const {
  return (groups_[group]->numel() + ranks_.size() - 1) / ranks_.size();
}

int GradientFold::owner(int microbatch) const { return mpipe_owner(microbatch, ranks_.size(), num_microbatches_); }

int GradientFold::count_of(int rank) const {
  int count = 0;
  for (int j = 0; j < num_microbatches_; ++j) count += owner(j) == rank ? 1 : 0;
  return count;
}

/// A group's gradients by the rank that folds them: [ranks, part], zero behind the last.
at::Tensor GradientFold::padded(std::size_t group, const at::Tensor& gradients) const {
  at::Tensor all = at::zeros({ranks_.size() * part_size(group)}, gradients.options());
  all.narrow(0, 0, gradients.numel()).copy_(gradients);
  return all.view({ranks_.size(), part_size(group)});
}

void GradientFold::resume() {
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    PPCTL_CHECK(!sums_[group].defined(), "a sum of encoder gradients that was not finished");
    sums_[group] = padded(group, groups_[group]->flat_grad())[ranks_.rank()].clone();
    groups_[group]->zero_grad();
  }
}

void GradientFold::keep(int microbatch) {
  std::vector<at::Tensor> gradients;
  for (ParameterGroup* group : groups_) {
    gradients.push_back(group->flat_grad().clone());
    group->zero_grad();
  }
  kept_[microbatch] = std::move(gradients);
}

/// This rank's part of every microbatch's gradient: [microbatches, part], those of each owner together.
at::Tensor GradientFold::receive_parts(std::size_t group, Deadline deadline) {
  const std::int64_t part = part_size(group);
  const auto size = static_cast<std::size_t>(ranks_.size());
  const auto options = groups_[group]->flat_grad().options();
  const auto own = static_cast<std::int64_t>(kept_.size());
  at::Tensor sent = at::zeros({ranks_.size(), own, part}, options);
  std::int64_t row = 0;
  for (const auto& [microbatch, gradients] : kept_) {
    sent.select(1, row++).copy_(padded(group, gradients[group]));
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
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    const at::Tensor parts = receive_parts(group, deadline);
    if (!sums_[group].defined()) sums_[group] = at::zeros({part_size(group)}, parts.options());
    std::vector<std::int64_t> next = first;
    for (int j = 0; j < num_microbatches_; ++j) {
      sums_[group].add_(parts[next[static_cast<std::size_t>(owner(j))]++]);
    }
  }
  kept_.clear();
}

void GradientFold::finish(Deadline deadline) {
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    const at::Tensor sum = std::exchange(sums_[group], at::Tensor());
    at::Tensor all = at::empty({ranks_.size() * part_size(group)}, sum.options());
    ranks_.all_gather(const_bytes(sum), mutable_bytes(all))->wait(deadline, "sums of encoder gradients");
    groups_[group]->flat_grad().copy_(all.narrow(0, 0, groups_[group]->numel()));
  }
}

}  // namespace ppctl
