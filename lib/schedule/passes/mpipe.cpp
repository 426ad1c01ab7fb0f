#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "schedule/links.hpp"
#include "schedule/passes/insertions.hpp"
#include "schedule/passes/mpipe_placement.hpp"
#include "schedule/passes/passes.hpp"

// The steps of a microbatch: its owner loads it (LOAD_DATA), encodes it and sends the features to the rank of the stage
// that takes them; that rank receives them, and after the stage's backward sends their gradient back, which the owner
// receives for its own backward. Nothing is sent where both are one rank. Steps stand directly before beats, behind the
// communication that is there: no pass before this one is disturbed, whatever it has grouped.

namespace ppctl {
namespace {

class MpipeLowering {
 public:
  MpipeLowering(Schedule& schedule, const MpipeOptions& options)
      : schedule_(schedule), options_(options), links_(schedule) {}

  void run(const MpipePlacement& placement) {
    for (int rank = 0; rank < schedule_.pp(); ++rank) lower(rank, placement[static_cast<std::size_t>(rank)]);
  }

 private:
  MetaStep step(MetaStepType type, int microbatch, int peer = -1) const {
    return {type, StageId(options_.consumer), MicrobatchId(microbatch), PipelineRank(peer)};
  }
  int owner(int microbatch) const { return mpipe_owner(microbatch, schedule_.pp(), schedule_.num_microbatches); }
  int consumer(int microbatch) const { return links_.owner(options_.consumer, microbatch); }

  void lower(int rank, const std::vector<MpipeSlot>& slots) {
    std::multimap<std::size_t, MetaStep> steps;  // by beat; equal ones keep their order
    const auto add = [&](std::size_t beat, MetaStep made) { steps.emplace(beat, made); };
    add_consumer(rank, add);
    for (const MpipeSlot& slot : slots) {
      slot.work == MetaStepType::PREPROCESS_FORWARD ? add_forward(rank, slot, add) : add_backward(rank, slot, add);
    }
    Insertions insertions;
    for (const auto& [beat, made] : steps) insertions.add(beat, made);
    insertions.apply(schedule_.ranks[static_cast<std::size_t>(rank)]);
  }

  /// A receive is posted one beat ahead of the forward that takes it; a gradient is sent right after its backward.
  template <class Add>
  void add_consumer(int rank, const Add& add) const {
    const RankSteps& steps = schedule_.ranks[static_cast<std::size_t>(rank)];
    const std::vector<MetaStep> beats = beats_of(steps);
    const auto [send, recv] = options_.encodes ? std::pair(MetaStepType::SEND_FEATURES, MetaStepType::RECV_FEATURES)
                                               : std::pair(MetaStepType::SEND_DATA, MetaStepType::RECV_DATA);
    for (std::size_t beat = 0; beat < beats.size(); ++beat) {
      for_each_part(steps, beats[beat], [&](MetaStep part) {
        const int j = part.microbatch_value();
        if (part.stage_value() != options_.consumer || owner(j) == rank) return;
        if (part.type() == MetaStepType::FORWARD) add(beat > 0 ? beat - 1 : 0, step(recv, j, owner(j)));
        if (options_.trains && makes_input_gradient(part.type())) {
          add(beat + 1, step(MetaStepType::SEND_FEATURE_GRADS, j, owner(j)));
        }
      });
    }
  }

  template <class Add>
  void add_forward(int rank, const MpipeSlot& slot, const Add& add) const {
    const int j = slot.microbatch;
    add(slot.beat, step(MetaStepType::LOAD_DATA, j));
    if (options_.encodes) add(slot.beat, step(MetaStepType::PREPROCESS_FORWARD, j));
    const MetaStepType send = options_.encodes ? MetaStepType::SEND_FEATURES : MetaStepType::SEND_DATA;
    if (consumer(j) != rank) add(slot.beat, step(send, j, consumer(j)));
  }

  template <class Add>
  void add_backward(int rank, const MpipeSlot& slot, const Add& add) const {
    const int j = slot.microbatch;
    const bool takes_gradients = slot.work != MetaStepType::PREPROCESS_BACKWARD_WEIGHT;
    if (takes_gradients && consumer(j) != rank) {
      add(slot.beat, step(MetaStepType::RECV_FEATURE_GRADS, j, consumer(j)));
    }
    add(slot.beat, step(slot.work, j));
  }

  Schedule& schedule_;
  const MpipeOptions& options_;
  StageLinks links_;
};

}  // namespace

void apply_mpipe(Schedule& schedule, const PassOptions& options) {
  MpipeOptions mpipe = options.mpipe;
  if (mpipe.consumer < 0 || mpipe.consumer >= schedule.num_stages()) {
    throw_error("mpipe: there is no stage {} to take the features", mpipe.consumer);
  }
  if (!mpipe.stages.empty()) PPCTL_CHECK_EQ(static_cast<int>(mpipe.stages.size()), schedule.num_stages());
  if (!mpipe.encodes) {
    mpipe.trains = false;
    mpipe.forward = 0.0;
  }
  const MpipePlacement placement =
      mpipe.just_in_time ? place_just_in_time(schedule, mpipe) : place_before_body(schedule, mpipe);
  MpipeLowering(schedule, mpipe).run(placement);
}

}  // namespace ppctl
