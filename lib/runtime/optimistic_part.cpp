#include "runtime/optimistic_part.hpp"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "schedule/text.hpp"

namespace ppctl {
namespace {

using StageAndMicrobatch = std::pair<int, int>;

StageAndMicrobatch key_of(MetaStep step) { return {step.stage().value, step.microbatch().value}; }

/// A step as the steps that it is made of.
std::span<const MetaStep> parts_of(const RankSteps& rank, const MetaStep& step) {
  if (step.type() == MetaStepType::BATCH_SEND_RECV) return rank.sub_steps_of(step);
  return {&step, 1};
}

bool may_run_early(MetaStepType type) {
  return type == MetaStepType::FORWARD || type == MetaStepType::SEND_FORWARD || type == MetaStepType::RECV_FORWARD ||
         type == MetaStepType::RECV_BACKWARD || type == MetaStepType::BATCH_SEND_RECV;
}

std::size_t length_of(const RankSteps& rank) {
  const auto end = std::ranges::find_if_not(rank.steps, [](MetaStep step) { return may_run_early(step.type()); });
  return static_cast<std::size_t>(end - rank.steps.begin());
}

/// The forwards among the first `length` steps.
std::set<StageAndMicrobatch> forwards_of(const RankSteps& rank, std::size_t length) {
  std::set<StageAndMicrobatch> forwards;
  for (std::size_t i = 0; i < length; ++i) {
    if (rank.steps[i].type() == MetaStepType::FORWARD) forwards.insert(key_of(rank.steps[i]));
  }
  return forwards;
}

/// Adds to `part` a receive for each message that `peer` sends this rank early and no forward of the part takes.
void add_left_over(const RankSteps& peer_steps, PipelineRank peer, PipelineRank me,
                   const std::set<StageAndMicrobatch>& forwards, OptimisticPart& part) {
  const std::size_t length = length_of(peer_steps);
  for (std::size_t i = 0; i < length; ++i) {
    for (const MetaStep step : parts_of(peer_steps, peer_steps.steps[i])) {
      if (step.type() != MetaStepType::SEND_FORWARD || step.peer() != me) continue;
      const StageId receiver(step.stage().value + 1);
      if (forwards.contains({receiver.value, step.microbatch().value})) continue;
      part.left_over.push_back(MetaStep(MetaStepType::RECV_FORWARD, receiver, step.microbatch(), peer));
    }
  }
}

}  // namespace

OptimisticPart optimistic_part(const Schedule& schedule, PipelineRank rank) {
  const RankSteps& whole = schedule.ranks.at(static_cast<std::size_t>(rank.value));
  OptimisticPart part;
  part.num_steps = length_of(whole);
  const auto forwards = forwards_of(whole, part.num_steps);
  const auto is_used_later = [&](MetaStep step) {
    return step.type() == MetaStepType::RECV_BACKWARD ||
           (step.type() == MetaStepType::RECV_FORWARD && !forwards.contains(key_of(step)));
  };
  std::vector<MetaStep> kept;
  for (std::size_t i = 0; i < part.num_steps; ++i) {
    const MetaStep step = whole.steps[i];
    kept.clear();
    for (const MetaStep one : parts_of(whole, step)) (is_used_later(one) ? part.posted_later : kept).push_back(one);
    if (kept.size() > 1) {
      part.program.rank.push_composite(step.type(), kept, step.peer());
    } else if (kept.size() == 1) {
      part.program.rank.steps.push_back(kept[0]);
    }
  }
  for (const MetaStep step : part.program.rank.steps) {
    part.program.texts.push_back(format_step(part.program.rank, step));
  }
  for (int peer = 0; peer < schedule.pp(); ++peer) {
    if (peer == rank.value) continue;
    add_left_over(schedule.ranks[static_cast<std::size_t>(peer)], PipelineRank(peer), rank, forwards, part);
  }
  return part;
}

}  // namespace ppctl
