#pragma once

#include <vector>

#include "simulate/cost_model.hpp"
#include "topology/placement.hpp"

namespace ppctl {

/// What one message costs: it holds its link for `occupancy_ms` and arrives latency_ms after that.
struct TransferCosts {
  double latency_ms = 0;
  double occupancy_ms = 0;
};

/// What the simulator's inner loop needs to know of one stage, for one half of the microbatches.
struct StageRoute {
  double forward_ms = 0;
  double dx_ms = 0;
  double dw_ms = 0;
  double activation_bytes = 0;
  int rank = -1;
  int previous = -1;  ///< rank of the stage before, or -1
  int next = -1;      ///< rank of the stage after, or -1
  TransferCosts to_next;
  TransferCosts to_previous;
};

/// Ranks, neighbours and costs of each stage, looked up by index. Bidirectional placements have two halves of
/// microbatches, the others one.
class RouteTable {
 public:
  RouteTable(const Placement& placement, const CostModel& costs, int num_microbatches);

  const StageRoute& at(int stage, int microbatch) const {
    return routes_[static_cast<std::size_t>(microbatch >= half_ ? stage + num_stages_ : stage)];
  }
  /// A message of `bytes` between two ranks; nothing within a rank.
  TransferCosts transfer(int from, int to, double bytes) const;

 private:
  int num_stages_;
  int half_;  ///< the first microbatch of the second half
  std::vector<StageRoute> routes_;
  double p2p_ms_;
  LinkCosts link_;
  std::vector<LinkOverride> overrides_;
};

}  // namespace ppctl
