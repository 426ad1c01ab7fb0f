#pragma once

#include "simulate/cost_model.hpp"
#include "simulate/rank_memory.hpp"

namespace ppctl {

/// Costs of stages from what their layers compute and keep. Times follow the number of operations and are relative: one
/// millisecond is the mean forward of a stage. Bytes are those of the built-in layers: saved for the backward, sent to
/// the next stage, and living between steps on one rank.
CostModel model_costs(const MemoryModel& model);

/// Adds the all-to-alls of layers with experts to the stages' times, which must be in milliseconds: two in a layer's
/// forward and two in its backward, over costs.link, with as many tokens for each expert. Those of forwards that are
/// run again are not counted.
void add_exchanges(const MemoryModel& model, CostModel& costs);

}  // namespace ppctl
