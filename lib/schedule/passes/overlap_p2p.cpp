#include <algorithm>

#include "schedule/links.hpp"
#include "schedule/passes/passes.hpp"

// Before: R0 C0 S0  R1 C1 S1  R2 C2 S2 ...   (R, C, S: receives, compute and sends of one beat)
// After:  R0 R1 C0 S0  R2 C1 S1  R3 C2 S2 ...
//
// All receives move by the same one beat, so their order stays, and with it the order on every communicator.

namespace ppctl {
namespace {

bool is_receive(MetaStep step) {
  return step.type() == MetaStepType::RECV_FORWARD || step.type() == MetaStepType::RECV_BACKWARD;
}

/// Moves the receives in [begin, end) to its front, in their order.
void move_receives_to_front(std::vector<MetaStep>::iterator begin, std::vector<MetaStep>::iterator end) {
  for (auto it = begin; it != end; ++it) {
    if (!is_receive(*it)) continue;
    std::rotate(begin, it, it + 1);
    ++begin;
  }
}

}  // namespace

void apply_overlap_p2p(Schedule& schedule, const PassOptions& /*options*/) {
  for (RankSteps& rank : schedule.ranks) {
    auto beat = rank.steps.end();  // of the beat before
    for (auto it = rank.steps.begin(); it != rank.steps.end(); ++it) {
      if (!is_beat(it->type())) continue;
      const auto next_beat = it;
      if (beat != rank.steps.end()) move_receives_to_front(beat, next_beat);
      beat = next_beat;
    }
  }
}

}  // namespace ppctl
