#include "simulate/held_state.hpp"

#include <algorithm>

#include "arch/job_model.hpp"
#include "arch/stage_memory.hpp"

namespace ppctl {
namespace {

constexpr std::int64_t kMasterBytes = 4;

/// Elements of a rank's rows of every parameter, cut on dim 0 as torch.chunk does.
std::int64_t shard_elements(const GroupLayout& layout, std::int64_t ranks, std::int64_t index) {
  if (ranks == 1) return layout.numel();
  std::int64_t elements = 0;
  for (const Parameter& parameter : layout.parameters()) {
    const std::int64_t rows = parameter.shape.empty() ? 1 : parameter.shape[0];
    const std::int64_t chunk = (rows + ranks - 1) / ranks;
    const std::int64_t mine = std::min(rows, (index + 1) * chunk) - std::min(rows, index * chunk);
    if (rows > 0) elements += mine * (parameter.numel / rows);
  }
  return elements;
}

}  // namespace

HeldState::HeldState(const MemoryModel& model, int stage)
    : ranks_(model.dp_shard), element_bytes_(model.shape.element_bytes), reduce_bytes_(model.reduce_bytes) {
  const StageRange range = model.range_of(stage);
  for (const GroupLayout& layout : stage_groups(model.spec, range, element_bytes_)) {
    const std::int64_t master = model.shape.accumulator_bytes();
    const std::int64_t elements = shard_elements(layout, ranks_, model.shard);
    groups_.push_back({layout.numel() * element_bytes_, layout.numel() * master, elements * master, elements});
  }
  tables_ = rotary_table_bytes(model.spec, range, model.shape.sequence);
}

void HeldState::add_to(RankMemory& memory) const {
  constexpr std::int64_t kMoments = 2;
  memory.tables += tables_;
  const bool has_masters = element_bytes_ < kMasterBytes;
  for (const GroupBytes& group : groups_) {
    memory.moments += kMoments * group.shard;
    if (has_masters) memory.masters += group.shard;
    if (!is_sharded()) {
      memory.parameters += group.whole;
      memory.gradients += group.whole_grad;
    } else if (!has_masters) {
      memory.parameters += group.shard;
    }
  }
}

void HeldState::unshard() {
  if (!is_sharded()) return;
  unsharded_ = 0;
  for (const GroupBytes& group : groups_) unsharded_ += group.whole;
}

void HeldState::reshard() { unsharded_ = 0; }

void HeldState::before_weight_grads() {
  if (!is_sharded()) return;
  whole_grads_ = 0;
  for (const GroupBytes& group : groups_) whole_grads_ += group.whole_grad;
}

// Fsdp::reduce_grad: the messages of a group are on their way while those of the group before are summed. Each needs
// the parts of all ranks for this rank's rows and, where gradients travel in another dtype, a copy of the whole.
std::int64_t HeldState::reduce_grad() {
  if (!is_sharded()) return 0;
  const bool first = shard_grads_ == 0;
  const bool converts = reduce_bytes_ != kMasterBytes;
  std::int64_t live = gradients();
  std::int64_t peak = live;
  const auto messages = [&](const GroupBytes& group) {
    const std::int64_t copy = converts ? group.whole_grad / kMasterBytes * reduce_bytes_ : 0;
    return copy + ranks_ * group.shard_elements * reduce_bytes_;
  };
  const auto finish = [&](const GroupBytes& group) {
    if (first) live += group.shard;
    // A sum in another dtype has a tensor of its own, and one in float32 where it is added.
    const std::int64_t sum = converts ? group.shard_elements * reduce_bytes_ + (first ? 0 : group.shard) : 0;
    peak = std::max(peak, live + sum);
    live -= group.whole_grad + messages(group);
  };
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    live += messages(groups_[i]);
    peak = std::max(peak, live);
    if (i > 0) finish(groups_[i - 1]);
  }
  if (!groups_.empty()) finish(groups_.back());
  whole_grads_ = 0;
  shard_grads_ = live;
  return peak - live;
}

}  // namespace ppctl
