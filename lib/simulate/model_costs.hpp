#pragma once

#include "simulate/cost_model.hpp"
#include "simulate/rank_memory.hpp"

namespace ppctl {

/// Costs of stages from what their layers compute and keep. Times follow the number of operations and are relative: one
/// millisecond is the mean forward of a stage. Bytes are those of the built-in layers: saved for the backward, sent to
/// the next stage, and living between steps on one rank.
CostModel model_costs(const MemoryModel& model);

}  // namespace ppctl
