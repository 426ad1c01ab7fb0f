#include "train/memory_watch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "simulate/memory_report.hpp"

namespace ppctl {

void MemoryWatch::begin_step() {
  before_step_ = meter_.live_bytes();
  meter_.reset_peak();
}

MemoryPart MemoryWatch::part(std::size_t buffer_bytes) const {
  return {static_cast<double>(before_step_), static_cast<double>(meter_.peak_bytes()),
          static_cast<double>(buffer_bytes)};
}

void MemoryWatch::note(std::size_t rank, const MemoryPart& part) {
  MemoryPart& most = measured_.at(rank);
  most.between_steps = std::max(most.between_steps, part.between_steps);
  most.peak = std::max(most.peak, part.peak);
  most.buffers = std::max(most.buffers, part.buffers);
}

std::size_t MemoryWatch::fullest() const {
  const auto most = std::max_element(planned_.begin(), planned_.end(), [](const RankMemory& a, const RankMemory& b) {
    return a.tensors_at_peak() < b.tensors_at_peak();
  });
  return static_cast<std::size_t>(most - planned_.begin());
}

double MemoryWatch::planned_peak_mib() const {
  return static_cast<double>(planned_[fullest()].tensors_at_peak()) / (1024.0 * 1024.0);
}

std::string MemoryWatch::summary() const {
  const std::size_t rank = fullest();
  const RankMemory& plan = planned_[rank];
  const MemoryPart& most = measured_[rank];
  const auto text = [](std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  return fmt::format(
      "memory of rank {}, the fullest: tensors at their peak {} planned (at {}), {} measured; between steps {} "
      "planned, "
      "{} measured; receive buffers {} planned, {} measured",
      rank, text(plan.tensors_at_peak()), plan.peak_step, bytes_text(most.peak), text(plan.tensors_between_steps()),
      bytes_text(most.between_steps), text(plan.buffers), bytes_text(most.buffers));
}

std::vector<RankMemory> planned_memory(const Schedule& schedule, MemoryModel model, const Mesh& mesh) {
  std::vector<RankMemory> ranks;
  for (int rank = 0; rank < mesh.world_size(); ++rank) {
    const MeshCoordinates place = mesh.coordinates(rank);
    model.shard = place.dp_shard;
    model.experts.index = mesh.index(MeshAxis::kExpert, rank);
    model.expert_shard = mesh.index(MeshAxis::kExpertShard, rank);
    ranks.push_back(plan_rank_memory(schedule, model, place.pp));
  }
  return ranks;
}

}  // namespace ppctl
