#include "schedule/verifier/messages.hpp"

#include <utility>

namespace ppctl {

MessageBoard::MessageBoard(const Schedule& schedule, const StageLinks& links)
    : schedule_(schedule),
      links_(links),
      arrived_(2 * links.num_keys()),
      blocked_on_(schedule.ranks.size(), kNone),
      batch_open_(schedule.ranks.size()) {
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const RankSteps& steps = schedule.ranks[rank];
    if (steps.sub_steps.empty()) continue;
    batch_open_[rank].resize(steps.sub_steps.size());
    for (const MetaStep step : steps.steps) {
      if (step.type() != MetaStepType::BATCH_SEND_RECV) continue;
      batch_open_[rank][step.sub_index()] = static_cast<std::uint8_t>(step.sub_count());
    }
  }
}

void MessageBoard::complete_in_batch(int rank, const Operation& operation) {
  const RankSteps& steps = schedule_.ranks[static_cast<std::size_t>(rank)];
  const MetaStep batch = steps.steps[operation.step_number];
  if (--batch_open_[static_cast<std::size_t>(rank)][batch.sub_index()] > 0) return;
  for (const MetaStep part : steps.sub_steps_of(batch)) {
    const Operation member = operation_of(part, operation.step_number, true);
    if (!member.is_send) arrive(rank, member.message);
  }
}

void DirectMessages::computed(MetaStep part) {
  const int stage = part.stage_value();
  const int microbatch = part.microbatch_value();
  if (part.type() == MetaStepType::FORWARD) {
    const int to = links_.downstream(stage, microbatch);
    if (to >= 0) arrive(to, static_cast<MessageId>(links_.key(stage + 1, microbatch)));
  } else if (makes_input_gradient(part.type())) {
    const int to = links_.upstream(stage, microbatch);
    if (to >= 0) arrive(to, static_cast<MessageId>(links_.num_keys() + links_.key(stage - 1, microbatch)));
  }
}

TaggedMessages::TaggedMessages(const Schedule& schedule, const StageLinks& links)
    : MessageBoard(schedule, links), other_end_(2 * links.num_keys(), kNothing) {}

bool TaggedMessages::post(int rank, std::size_t step_number) {
  const RankSteps& steps = schedule_.ranks[static_cast<std::size_t>(rank)];
  const MetaStep step = steps.steps[step_number];
  const bool in_batch = is_composite(step.type());
  for_each_part(steps, step,
                [&](MetaStep part) { post_part(rank, operation_of(part, step_number, in_batch), part.peer().value); });
  return true;
}

void TaggedMessages::post_part(int rank, const Operation& operation, int peer) {
  std::uint32_t& other_end = other_end_[operation.message];
  if (!operation.is_send) {
    if (other_end == kSent) return complete(rank, operation);
    other_end = operation.step_number | (operation.in_batch ? kBatchBit : 0);
    return;
  }
  complete(rank, operation);
  const std::uint32_t posted = std::exchange(other_end, kSent);
  if (posted == kNothing) return;
  complete(peer, {operation.message, posted & ~kBatchBit, false, (posted & kBatchBit) != 0});
}

}  // namespace ppctl
