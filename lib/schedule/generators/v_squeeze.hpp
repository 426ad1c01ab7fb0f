#pragma once

#include <vector>

#include "schedule/meta_step.hpp"

namespace ppctl {

/// FORWARD, BACKWARD_INPUT or BACKWARD_WEIGHT of one of the two chunks of a rank of a V.
struct VStep {
  MetaStepType type;
  int chunk;
  int microbatch;
};
/// One order a rank.
using VOrders = std::vector<std::vector<VStep>>;

/// Shortens orders of equally long steps without more memory: runs them, letting a rank that would wait take one of its
/// next few steps early where that keeps its peak; then the same from the end backwards in time, which moves late what
/// nobody waits for (forward-backward improvement, as in project scheduling). Keeps the orders as they are where that
/// is no gain.
///
/// REQUIRES: `orders` is complete, does not deadlock, and no rank holds more than `peak_chunks` activations.
void squeeze(VOrders& orders, int num_microbatches, int peak_chunks);

}  // namespace ppctl
