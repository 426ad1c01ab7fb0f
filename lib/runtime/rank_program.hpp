#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "schedule/pair_transfers.hpp"
#include "schedule/schedule.hpp"

namespace ppctl {

/// The steps of one rank as an executor wants them: with the text of each, made once, for status and messages, and what
/// starts while a pair runs.
struct RankProgram {
  RankSteps rank;
  std::vector<std::string> texts;                              ///< one a step
  std::map<std::size_t, std::vector<PairTransfer>> transfers;  ///< by the index of a pair

  std::span<const PairTransfer> transfers_of(std::size_t pair) const {
    const auto found = transfers.find(pair);
    return found == transfers.end() ? std::span<const PairTransfer>() : found->second;
  }
};

/// REQUIRES: 0 <= rank < schedule.pp().
RankProgram whole_program(const Schedule& schedule, PipelineRank rank);

/// The forward steps and their communication alone: evaluation and generation. A schedule that was proved stays free of
/// deadlocks, since what is left waits for a part of what the whole waits for, in the same order.
RankProgram forward_program(const Schedule& schedule, PipelineRank rank);

}  // namespace ppctl
