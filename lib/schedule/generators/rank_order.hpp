#pragma once

#include <utility>
#include <vector>

#include "schedule/generator.hpp"

namespace ppctl {

/// Writes the compute steps of one rank. Generators say chunk and microbatch; the placement says which stage that is.
class RankOrder {
 public:
  /// `num_steps`: how many steps will come (for memory to be taken once).
  RankOrder(const Placement& placement, PipelineRank rank, std::size_t num_steps) : stages_(placement.stages_of(rank)) {
    order_.steps.reserve(num_steps);
  }

  void forward(int chunk, int microbatch) { push(MetaStepType::FORWARD, chunk, microbatch); }
  void backward(int chunk, int microbatch) { push(MetaStepType::BACKWARD, chunk, microbatch); }
  void input(int chunk, int microbatch) { push(MetaStepType::BACKWARD_INPUT, chunk, microbatch); }
  void weight(int chunk, int microbatch) { push(MetaStepType::BACKWARD_WEIGHT, chunk, microbatch); }
  void push(MetaStepType type, int chunk, int microbatch) { order_.steps.push_back(step(type, chunk, microbatch)); }

  /// A backward (B or I) and a forward that run as a pair: one OVERLAP_B_F.
  void pair(MetaStep backward, MetaStep forward) {
    const MetaStep subs[] = {backward, forward};
    order_.push_composite(MetaStepType::OVERLAP_B_F, subs);
  }
  MetaStep step(MetaStepType type, int chunk, int microbatch) const {
    return MetaStep(type, stages_[static_cast<std::size_t>(chunk)], MicrobatchId(microbatch));
  }

  RankSteps take() { return std::move(order_); }

 private:
  std::vector<StageId> stages_;
  RankSteps order_;
};

/// A schedule without steps yet: name, placement and microbatches of the spec. Generators append one RankSteps a rank.
inline Schedule empty_schedule(const ScheduleSpec& spec, PlacementKind placement) {
  Schedule schedule;
  schedule.name = spec.name;
  schedule.placement = Placement(placement, spec.pp, spec.chunks);
  schedule.num_microbatches = spec.num_microbatches;
  schedule.ranks.reserve(static_cast<std::size_t>(spec.pp));
  return schedule;
}

}  // namespace ppctl
