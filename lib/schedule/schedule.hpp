#pragma once

#include <span>
#include <string>
#include <vector>

#include "schedule/meta_step.hpp"
#include "topology/placement.hpp"

namespace ppctl {

/// The steps of one rank in the order in which it runs them, with the sub-steps of composites in a side table.
struct RankSteps {
  std::vector<MetaStep> steps;
  std::vector<MetaStep> sub_steps;

  std::span<const MetaStep> sub_steps_of(MetaStep step) const {
    return {sub_steps.data() + step.sub_index(), static_cast<std::size_t>(step.sub_count())};
  }
  /// Appends a composite whose sub-steps are `subs` (at most 255).
  void push_composite(MetaStepType type, std::span<const MetaStep> subs, PipelineRank peer = {});
};

/// A schedule: what every rank of the pp axis does in one training step, as data. Generators write it, passes lower it,
/// the verifier proves it, the simulator times it, renderers draw it and the executor runs it.
struct Schedule {
  std::string name;  ///< the generator's name, or the file it was read from
  Placement placement;
  int num_microbatches = 0;
  std::vector<RankSteps> ranks;     ///< one a pipeline rank
  std::vector<std::string> passes;  ///< names of the passes that were applied, in order

  int pp() const { return placement.pp(); }
  int num_stages() const { return placement.num_stages(); }
};

}  // namespace ppctl
