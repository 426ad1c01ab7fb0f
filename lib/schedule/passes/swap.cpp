#include <limits>

#include "base/error.hpp"
#include "schedule/passes/insertions.hpp"
#include "schedule/passes/passes.hpp"

// A chunk whose forward is beat f and whose backward (or dx) is beat b, b - f >= swap_distance:
//
//   Cf  LAUNCH_OFFLOAD  Cf+1  WAIT_OFFLOAD  Cf+2 ...  LAUNCH_LOAD  Cb-1  WAIT_LOAD  Cb
//
// Each transfer has one beat to hide under. Where backwards are split, the activations stay from the load until dw has
// used them too.

namespace ppctl {
namespace {

class RankSwap {
 public:
  RankSwap(const StageLinks& links, RankSteps& rank, std::vector<std::uint32_t>& forward_beat, std::size_t distance)
      : links_(links), rank_(rank), beats_(beats_of(rank)), forward_beat_(forward_beat), distance_(distance) {}

  void run() {
    find_beats();
    Insertions insertions;
    for (std::size_t beat = 0; beat <= beats_.size(); ++beat) {
      const auto add = [&](std::size_t of_beat, bool backward, MetaStepType type) {
        if (of_beat >= beats_.size()) return;  // also what is before the first beat
        for_each_part(rank_, beats_[of_beat], [&](MetaStep part) {
          const bool is_backward = makes_input_gradient(part.type());
          const bool is_meant = backward ? is_backward : part.type() == MetaStepType::FORWARD;
          if (is_meant && is_swapped(part)) insertions.add(beat, MetaStep(type, part.stage(), part.microbatch()));
        });
      };
      add(beat - 2, false, MetaStepType::WAIT_OFFLOAD);
      add(beat - 1, false, MetaStepType::LAUNCH_OFFLOAD);
      add(beat + 1, true, MetaStepType::LAUNCH_LOAD);
      add(beat, true, MetaStepType::WAIT_LOAD);
    }
    insertions.apply(rank_);
  }

 private:
  static constexpr std::uint32_t kSwapped = std::numeric_limits<std::uint32_t>::max();

  std::uint32_t& entry(MetaStep part) { return forward_beat_[links_.key(part.stage_value(), part.microbatch_value())]; }
  bool is_swapped(MetaStep part) { return entry(part) == kSwapped; }

  /// Writes down each chunk's forward, then, at its backward, whether it is swapped.
  void find_beats() {
    for (std::size_t beat = 0; beat < beats_.size(); ++beat) {
      for_each_part(rank_, beats_[beat], [&](MetaStep part) {
        if (part.type() == MetaStepType::FORWARD) entry(part) = static_cast<std::uint32_t>(beat);
        if (makes_input_gradient(part.type()) && beat >= entry(part) + distance_) entry(part) = kSwapped;
      });
    }
  }

  const StageLinks& links_;
  RankSteps& rank_;
  std::vector<MetaStep> beats_;
  std::vector<std::uint32_t>& forward_beat_;  ///< by (stage, microbatch), or kSwapped
  std::size_t distance_;
};

}  // namespace

void apply_swap(Schedule& schedule, const PassOptions& options) {
  if (options.swap_distance < 3) {
    throw_error("swap: swap_distance is {}; it must be at least 3, so that an offload ends before its load begins",
                options.swap_distance);
  }
  const StageLinks links(schedule);
  std::vector<std::uint32_t> forward_beat(links.num_keys());
  for (RankSteps& rank : schedule.ranks) {
    RankSwap(links, rank, forward_beat, static_cast<std::size_t>(options.swap_distance)).run();
  }
}

}  // namespace ppctl
