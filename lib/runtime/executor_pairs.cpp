// Overlapped pairs: their halves, and the transfers that start before both have ended.
#include "base/error.hpp"
#include "runtime/executor.hpp"

namespace ppctl {

Nanoseconds Executor::begin_compute(MetaStep step) {
  await_parameters(step);
  const Nanoseconds start = monotonic_now();
  if (in_pair_) {
    const std::lock_guard lock(pair_mutex_);
    if (pair_start_ == 0) pair_start_ = start;
  }
  return start;
}

// Shards are gathered in one order on all ranks, so their waits are in one order too, whichever half begins first.
std::span<const MetaStep> Executor::begin_pair(MetaStep pair) {
  const auto halves = program_->rank.sub_steps_of(pair);
  PPCTL_CHECK(pair.type() == MetaStepType::OVERLAP_B_F && halves.size() == 2, "a pair of {} sub-steps", halves.size());
  for (const MetaStep half : halves) await_parameters(half);
  // A custom function of a transfer is called by the executor's thread, in its turn.
  const bool waits = has_custom_transfers_ || custom_[static_cast<std::size_t>(MetaStepType::BATCH_SEND_RECV)];
  early_.begin(waits ? std::span<const PairTransfer>() : program_->transfers_of(step_index_));
  return halves;
}

void Executor::run_half(MetaStep half) {
  run_step(half);
  early_.half_ended(half.type() == MetaStepType::FORWARD ? kForwardHalf : kBackwardHalf,
                    [this](std::size_t step) { run_step(program_->rank.steps[step]); });
}

void Executor::run_pair(MetaStep pair, const PairRunner& run_both) {
  const auto halves = begin_pair(pair);
  pair_start_ = 0;
  in_pair_ = true;
  run_both([&] { run_half(halves[0]); }, [&] { run_half(halves[1]); });
  in_pair_ = false;
  if (pair_start_ != 0) result_.busy += monotonic_now() - pair_start_;
}

// In one order whichever inputs come first: what a module does with other ranks inside of its halves needs all of them
// in the same one.
void Executor::run_pair_in_turns(MetaStep pair) {
  for (const MetaStep half : begin_pair(pair)) run_half(half);
}

}  // namespace ppctl
