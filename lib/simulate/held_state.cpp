#include "simulate/held_state.hpp"

#include <algorithm>
#include <numeric>

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

HeldState::HeldState(const MemoryModel& model, int stage) : HeldState(model, model.range_of(stage)) {}

HeldState::HeldState(const MemoryModel& model, const StageRange& range)
    : element_bytes_(model.shape.element_bytes), reduce_bytes_(model.reduce_bytes) {
  for (const GroupLayout& layout : stage_groups(model.spec, range, element_bytes_)) {
    const std::int64_t master = model.shape.accumulator_bytes();
    const bool experts = layout.kind() == GroupKind::kExperts;
    const std::int64_t ranks = experts ? model.expert_shard_count : model.dp_shard;
    const std::int64_t elements = shard_elements(layout, ranks, experts ? model.expert_shard : model.shard);
    groups_.push_back({layout.numel() * element_bytes_, layout.numel() * master, elements * master, elements, ranks,
                       std::ranges::any_of(layout.parameters(), &Parameter::trainable)});
  }
  tables_ = rotary_table_bytes(model.spec, range, model.shape.sequence);
}

void HeldState::add_to(RankMemory& memory) const {
  constexpr std::int64_t kMoments = 2;
  memory.tables += tables_;
  const bool has_masters = element_bytes_ < kMasterBytes;
  for (const GroupBytes& group : groups_) {
    if (group.trained) memory.moments += kMoments * group.shard;
    if (has_masters) memory.masters += group.shard;
    if (!group.is_sharded()) {
      memory.parameters += group.whole;
      memory.gradients += group.whole_grad;
    } else if (!has_masters) {
      memory.parameters += group.shard;
    }
  }
}

bool HeldState::is_sharded() const { return std::ranges::any_of(groups_, &GroupBytes::is_sharded); }

std::vector<std::int64_t> HeldState::trained_group_bytes(bool shards) const {
  std::vector<std::int64_t> bytes;
  for (const GroupBytes& group : groups_) {
    if (group.trained) bytes.push_back(shards ? group.shard : group.whole_grad);
  }
  return bytes;
}

std::int64_t HeldState::trained_gradients() const {
  const std::vector<std::int64_t> bytes = trained_group_bytes(/*shards=*/false);
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

void HeldState::unshard() {
  unsharded_ = 0;
  for (const GroupBytes& group : groups_) unsharded_ += group.is_sharded() ? group.whole : 0;
}

void HeldState::reshard() { unsharded_ = 0; }

void HeldState::before_weight_grads() {
  whole_grads_ = 0;
  for (const GroupBytes& group : groups_) whole_grads_ += group.is_reduced() ? group.whole_grad : 0;
}

// Fsdp::reduce_grad: the messages of a group are on their way while those of the group before are summed. Each needs
// the parts of all ranks for this rank's rows and, where gradients travel in another dtype, a copy of the whole.
std::int64_t HeldState::reduce_grad() {
  const bool first = shard_grads_ == 0;
  const bool converts = reduce_bytes_ != kMasterBytes;
  std::int64_t live = gradients();
  std::int64_t peak = live;
  const auto messages = [&](const GroupBytes& group) {
    const std::int64_t copy = converts ? group.whole_grad / kMasterBytes * reduce_bytes_ : 0;
    return copy + group.ranks * group.shard_elements * reduce_bytes_;
  };
  const auto finish = [&](const GroupBytes& group) {
    if (first) live += group.shard;
    // A sum in another dtype has a tensor of its own, and one in float32 where it is added.
    const std::int64_t sum = converts ? group.shard_elements * reduce_bytes_ + (first ? 0 : group.shard) : 0;
    peak = std::max(peak, live + sum);
    live -= group.whole_grad + messages(group);
  };
  const GroupBytes* previous = nullptr;
  for (const GroupBytes& group : groups_) {
    if (!group.is_reduced()) continue;
    live += messages(group);
    peak = std::max(peak, live);
    if (previous != nullptr) finish(*previous);
    previous = &group;
  }
  if (previous != nullptr) finish(*previous);
  whole_grads_ = 0;
  shard_grads_ = live;
  return peak - live;
}

}  // namespace ppctl
