#pragma once

#include <vector>

#include "schedule/generator.hpp"

namespace ppctl {

/// What an order of compute steps takes, in the unit of the costs.
struct OrderTime {
  double wall = 0;  ///< from 0 to the end of the last rank
  double span = 0;  ///< the longest rank's own first step to its own last step
};

/// Runs F, B, I and W steps (no composites) in the order of each rank, each as soon as what it needs is there; `costs`
/// has one entry a stage, and a stage's p2p is added to what it sends to another rank. For searches that compare
/// orders; the simulator does far more. Throws Bug if the order deadlocks.
OrderTime time_order(const Schedule& schedule, const std::vector<ChunkCosts>& costs);

}  // namespace ppctl
