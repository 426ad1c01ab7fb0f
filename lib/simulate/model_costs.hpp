#pragma once

#include "arch/model_work.hpp"
#include "simulate/cost_model.hpp"
#include "simulate/rank_memory.hpp"

namespace ppctl {

/// Costs of stages from what their layers do and keep. Times that were measured stand as they are; those by operations
/// are relative: one millisecond is the mean forward of a stage. Bytes are those of the built-in layers: saved for the
/// backward, moved by a swap, sent to the next stage, and living between steps on one rank.
CostModel model_costs(const MemoryModel& model, const ModelWork& work);
/// By operations.
CostModel model_costs(const MemoryModel& model);

/// Adds the all-to-alls of layers with experts to the stages' times, which must be in milliseconds: two in a layer's
/// forward and two in its backward, over costs.link, with as many tokens for each expert. Those of forwards that are
/// run again are not counted.
void add_exchanges(const MemoryModel& model, CostModel& costs);

}  // namespace ppctl
