#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "comm/transport.hpp"
#include "model/expert_exchange.hpp"

namespace ppctl {

/// The all-to-all between the ranks that share the experts of a stage, made of messages straight from where the rows
/// lie to where they belong: rows that go to one rank are one message, and what comes from one rank is put in place
/// expert by expert, so that nothing is sorted afterwards.
///
/// Of a dispatch two messages travel to each rank, the numbers of rows and then the rows, both sent at start(); the
/// wait takes the numbers first and allocates what they say. start() never waits. Exchanges of forwards, of backwards
/// and of recomputed forwards have a group each, so that two threads may run a forward and a backward at a time.
class GroupExpertExchange final : public ExpertExchange {
 public:
  /// `ranks`: world ranks that share the experts, in the order of their blocks. COLLECTIVE over them, as
  /// Communicator::group. `timeout_s`: of each wait for another rank. The communicator must outlive the object.
  GroupExpertExchange(Communicator& communicator, std::span<const int> ranks, double timeout_s);

  std::unique_ptr<PendingExchange> start(ExpertTransfer transfer) override;

 private:
  Group& group_for(const ExpertTransfer& transfer) const;

  std::unique_ptr<Group> forward_;
  std::unique_ptr<Group> backward_;
  std::unique_ptr<Group> recompute_;
  double timeout_s_;
};

}  // namespace ppctl
