#pragma once

#include <optional>
#include <string>

#include "schedule/verifier/messages.hpp"
#include "schedule/verify.hpp"

namespace ppctl {

/// In-order rendezvous, as NCCL has it. The operations of a rank on one communicator run one after the other, in the
/// order of its steps; a transfer happens when its send and its receive are both at the head of their rank's operations
/// on that communicator. All that a BATCH_SEND_RECV has on one communicator is one operation there, whose transfers
/// happen in any order except that those of one direction keep theirs. (There are no tags: a send meets whatever its
/// peer receives next. Heads that do not match never will, or would hand over the wrong tensor.)
class InOrderMessages : public MessageBoard {
 public:
  InOrderMessages(const Schedule& schedule, const StageLinks& links, CommunicatorMap map);
  static constexpr bool kDirect = false;

  /// False when an operation can never be served; then mismatch() says why.
  bool post(int rank, std::size_t step_number);

  /// What the rank's step meets on its communicator instead of its counterpart.
  struct Mismatch {
    int rank = -1;
    std::size_t step_number = 0;
    int peer = -1;
    std::size_t peer_step_number = 0;
  };
  const std::optional<Mismatch>& mismatch() const { return mismatch_; }

 private:
  /// Operations that one of the two ranks has started and the other has not met yet. Operations of one step form a
  /// group.
  struct Channel {
    std::vector<Operation> pending;
    std::size_t head = 0;
    std::int32_t rank = -1;  ///< whose they are
  };

  std::size_t channel_of(int rank, const Operation& operation, int peer) const;
  bool post_group(int rank, int peer, std::size_t channel, std::span<const Operation> group);
  /// Meets as many of `group` as the head group of the channel allows, and takes them out of both. False on a mismatch.
  bool meet_head(int rank, int peer, Channel& channel, std::vector<Operation>& group);
  void pop(Channel& channel, std::size_t index);

  CommunicatorMap map_;
  std::vector<Channel> channels_;
  std::optional<Mismatch> mismatch_;
  std::vector<Operation> group_;  ///< scratch
  std::vector<Operation> batch_;  ///< scratch
};

}  // namespace ppctl
