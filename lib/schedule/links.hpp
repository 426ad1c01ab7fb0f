#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.hpp"

namespace ppctl {

/// Which rank computes what, as flat tables: what passes and the verifier ask a hundred million times. All numbers are
/// plain ints, and -1 means that there is no such stage. REQUIRES of every query: 0 <= stage < num_stages, 0 <=
/// microbatch < num_microbatches.
class StageLinks {
 public:
  explicit StageLinks(const Schedule& schedule)
      : pp_(schedule.pp()), num_stages_(schedule.num_stages()), num_microbatches_(schedule.num_microbatches) {
    const bool two_ways = schedule.placement.kind() == PlacementKind::kBidirectional;
    first_of_second_half_ = two_ways ? num_microbatches_ / 2 : num_microbatches_;
    for (int half = 0; half < 2; ++half) {
      // Any microbatch of that half; of a half that is empty nobody asks.
      const MicrobatchId microbatch(half == 0 ? 0 : first_of_second_half_);
      std::vector<std::int32_t>& owners = owners_[half];
      owners.assign(static_cast<std::size_t>(num_stages_) + 2, -1);
      for (int stage = 0; stage < num_stages_; ++stage) {
        owners[static_cast<std::size_t>(stage) + 1] =
            schedule.placement.rank_of(StageId(stage), microbatch, num_microbatches_).value;
      }
    }
  }

  int pp() const { return pp_; }
  int num_stages() const { return num_stages_; }
  int num_microbatches() const { return num_microbatches_; }

  int owner(int stage, int microbatch) const { return at(stage, microbatch); }
  /// The rank that makes the activations that the stage's forward consumes.
  int upstream(int stage, int microbatch) const { return at(stage - 1, microbatch); }
  /// The rank that makes the gradients that the stage's backward consumes.
  int downstream(int stage, int microbatch) const { return at(stage + 1, microbatch); }

  /// Whether the stage is on the rank for that microbatch, and both numbers exist.
  bool is_on(int rank, int stage, int microbatch) const {
    return stage < num_stages_ && microbatch < num_microbatches_ && owner(stage, microbatch) == rank;
  }

  /// A dense index of (stage, microbatch), stage-major.
  std::size_t key(int stage, int microbatch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(num_microbatches_) +
           static_cast<std::size_t>(microbatch);
  }
  std::size_t num_keys() const { return key(num_stages_, 0); }

 private:
  int at(int stage, int microbatch) const {
    return owners_[microbatch >= first_of_second_half_][static_cast<std::size_t>(stage + 1)];
  }

  int pp_;
  int num_stages_;
  int num_microbatches_;
  int first_of_second_half_;
  std::vector<std::int32_t>
      owners_[2];  ///< [half][stage + 1], so that the stages -1 and num_stages are there, and owned by nobody
};

/// Whether a step takes the compute thread for a beat: a compute step or an overlapped pair of them.
constexpr bool is_beat(MetaStepType type) { return is_compute(type) || type == MetaStepType::OVERLAP_B_F; }
/// Whether the step makes the gradient of its stage's input.
constexpr bool makes_input_gradient(MetaStepType type) {
  return type == MetaStepType::BACKWARD || type == MetaStepType::BACKWARD_INPUT;
}

/// Calls visit(step) for the step itself, or for each sub-step of a composite.
template <class Visit>
void for_each_part(const RankSteps& rank, MetaStep step, Visit visit) {
  if (!is_composite(step.type())) {
    visit(step);
    return;
  }
  for (const MetaStep part : rank.sub_steps_of(step)) visit(part);
}

}  // namespace ppctl
