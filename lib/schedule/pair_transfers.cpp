#include "schedule/pair_transfers.hpp"

#include <span>

#include "schedule/links.hpp"

namespace ppctl {
namespace {

constexpr std::uint8_t kEndOfPair = 4;

bool is_send(MetaStepType type) { return type == MetaStepType::SEND_FORWARD || type == MetaStepType::SEND_BACKWARD; }

/// The half that makes what `send` sends; kEndOfPair where neither does.
std::uint8_t halves_of(std::span<const MetaStep> halves, MetaStep send) {
  const bool forward = send.type() == MetaStepType::SEND_FORWARD;
  const MetaStep maker = halves[forward ? 1 : 0];
  const bool is_made = maker.stage() == send.stage() && maker.microbatch() == send.microbatch();
  return !is_made ? kEndOfPair : forward ? kForwardHalf : kBackwardHalf;
}

/// Steps that neither compute nor use the links between stages.
bool may_be_passed(MetaStepType type) {
  switch (type) {
    case MetaStepType::UNSHARD:
    case MetaStepType::RESHARD:
    case MetaStepType::REDUCE_GRAD:
    case MetaStepType::LAUNCH_OFFLOAD:
    case MetaStepType::WAIT_OFFLOAD:
    case MetaStepType::LAUNCH_LOAD:
    case MetaStepType::WAIT_LOAD:
      return true;
    default:
      return false;
  }
}

/// What a transfer waits for.
std::uint8_t halves_of(const RankSteps& rank, std::span<const MetaStep> halves, MetaStep transfer) {
  if (!is_composite(transfer.type())) return is_send(transfer.type()) ? halves_of(halves, transfer) : kEndOfPair;
  std::uint8_t all = 0;
  for (const MetaStep part : rank.sub_steps_of(transfer)) {
    if (is_send(part.type())) all |= halves_of(halves, part);
  }
  return all == 0 ? kEndOfPair : all;
}

}  // namespace

void find_pair_transfers(const RankSteps& rank, std::size_t pair, std::vector<PairTransfer>& transfers) {
  transfers.clear();
  const auto halves = rank.sub_steps_of(rank.steps[pair]);
  for (std::size_t i = pair + 1; i < rank.steps.size(); ++i) {
    const MetaStep step = rank.steps[i];
    if (may_be_passed(step.type())) continue;
    if (!is_p2p(step.type()) && step.type() != MetaStepType::BATCH_SEND_RECV) break;
    PairTransfer transfer{i, halves_of(rank, halves, step)};
    for (const PairTransfer& before : transfers) {
      if (rank.steps[before.step].peer() == step.peer()) transfer.halves |= before.halves;
    }
    transfers.push_back(transfer);
  }
  std::erase_if(transfers, [](const PairTransfer& transfer) { return (transfer.halves & kEndOfPair) != 0; });
}

}  // namespace ppctl
