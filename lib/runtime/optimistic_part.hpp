#pragma once

#include <cstddef>
#include <vector>

#include "runtime/rank_program.hpp"

namespace ppctl {

/// The beginning of a rank's steps that may run on parameters which are not final yet, since nothing of it outlives the
/// step: its forwards and their transfers, up to the first step of another kind (a backward adds to gradients that the
/// optimizer may still need).
struct OptimisticPart {
  RankProgram program;
  std::size_t num_steps = 0;  ///< of the whole program that it stands for
  /// Receives among those steps whose tensors are used after them. They are posted once the parameters are known to be
  /// right: an abandoned part must not leave a receive that takes a message of its repetition.
  std::vector<MetaStep> posted_later;
  /// Receives, of this rank, of what the other ranks' optimistic parts send here beyond what this one takes: they empty
  /// the edges when the parts are abandoned.
  std::vector<MetaStep> left_over;
};

/// REQUIRES: a lowered schedule of forwards and backwards, 0 <= rank < schedule.pp().
OptimisticPart optimistic_part(const Schedule& schedule, PipelineRank rank);

}  // namespace ppctl
