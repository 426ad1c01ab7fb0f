#include "simulate/routes.hpp"

#include <limits>

namespace ppctl {

RouteTable::RouteTable(const Placement& placement, const CostModel& costs, int num_microbatches)
    : num_stages_(placement.num_stages()),
      half_(std::numeric_limits<int>::max()),
      p2p_ms_(costs.p2p_ms),
      link_(costs.link),
      overrides_(costs.link_overrides) {
  const bool bidirectional = placement.kind() == PlacementKind::kBidirectional;
  if (bidirectional) half_ = num_microbatches / 2;
  for (int half = 0; half < (bidirectional ? 2 : 1); ++half) {
    const MicrobatchId microbatch(half == 0 ? 0 : half_);
    const auto rank_of = [&](int stage) {
      return placement.rank_of(StageId(stage), microbatch, num_microbatches).value;
    };
    for (int stage = 0; stage < num_stages_; ++stage) {
      const StageCosts& stage_costs = costs.stages[static_cast<std::size_t>(stage)];
      StageRoute route;
      route.forward_ms = stage_costs.forward_ms;
      route.dx_ms = stage_costs.dx_ms;
      route.dw_ms = stage_costs.dw_ms;
      route.activation_bytes = stage_costs.activation_bytes;
      route.rank = rank_of(stage);
      if (stage > 0) {
        const double bytes = costs.stages[static_cast<std::size_t>(stage - 1)].output_bytes;
        route.previous = rank_of(stage - 1);
        route.to_previous = transfer(route.rank, route.previous, bytes);
      }
      if (stage + 1 < num_stages_) {
        route.next = rank_of(stage + 1);
        route.to_next = transfer(route.rank, route.next, stage_costs.output_bytes);
      }
      routes_.push_back(route);
    }
  }
}

TransferCosts RouteTable::transfer(int from, int to, double bytes) const {
  if (from == to) return {};
  LinkCosts link = link_;
  for (const LinkOverride& other : overrides_) {
    if (other.from.value == from && other.to.value == to) link = other.costs;
  }
  // 1 Gbit/s moves 125,000 bytes a millisecond.
  const double occupancy = link.bandwidth_gbps > 0 ? bytes / (link.bandwidth_gbps * 125'000.0) : 0;
  return {p2p_ms_ + link.latency_ms, occupancy};
}

}  // namespace ppctl
