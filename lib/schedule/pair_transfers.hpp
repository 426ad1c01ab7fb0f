#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedule/schedule.hpp"

namespace ppctl {

/// A send or a batch that starts before the pair in front of it has ended.
struct PairTransfer {
  std::size_t step = 0;     ///< its index in the rank's steps
  std::uint8_t halves = 0;  ///< what it waits for: kBackwardHalf, kForwardHalf, or both
};
inline constexpr std::uint8_t kBackwardHalf = 1;
inline constexpr std::uint8_t kForwardHalf = 2;

/// Which of the transfers between an overlapped pair and the next compute step start while the pair runs: a send when
/// the half that makes its tensors has ended, a batch when those of all its sends have. None overtakes one that stands
/// before it with the same peer: so whichever half ends first, each pair of ranks has its messages in the schedule's
/// order, and what was proved of a schedule whose transfers start at the end of the pair (verify.hpp) holds for this
/// earlier start. A receive of its own starts at the end of the pair, and all behind it with its peer do.
///
/// In the order of the steps, which is that in which transfers that wait for the same are to start.
void find_pair_transfers(const RankSteps& rank, std::size_t pair, std::vector<PairTransfer>& transfers);

}  // namespace ppctl
