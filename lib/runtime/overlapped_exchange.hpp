#pragma once

#include <memory>

#include "model/expert_exchange.hpp"
#include "overlap/comm_compute_overlap.hpp"

namespace ppctl {

/// The exchanges of `below`, with the meetings of an overlapped pair: start() is the meeting as COMM and the launch,
/// wait() the meeting as COMPUTE and the wait. On threads that are no side of a pair it is `below` itself. Both must
/// outlive it.
class OverlappedExchange final : public ExpertExchange {
 public:
  OverlappedExchange(ExpertExchange& below, CommComputeOverlap& overlap) : below_(below), overlap_(overlap) {}

  std::unique_ptr<PendingExchange> start(ExpertTransfer transfer) override;

 private:
  ExpertExchange& below_;
  CommComputeOverlap& overlap_;
};

}  // namespace ppctl
