#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/links.hpp"

namespace ppctl {

/// A message's number: activations of (stage, microbatch) have the key of the stage that receives them, gradients
/// num_keys more.
using MessageId = std::uint32_t;

/// Knows when a receive is complete, and which rank waits for it. The base of the semantics under which a schedule is
/// run; a semantics says in post() what a send or a receive that a rank has reached leads to.
class MessageBoard {
 public:
  MessageBoard(const Schedule& schedule, const StageLinks& links);

  bool has_arrived(MessageId message) const { return arrived_[message] != 0; }
  /// The rank does not go on before the message has arrived.
  void block(int rank, MessageId message) { blocked_on_[static_cast<std::size_t>(rank)] = message; }
  static constexpr MessageId kNone = 0xffff'ffff;
  MessageId blocked_on(int rank) const { return blocked_on_[static_cast<std::size_t>(rank)]; }
  /// Ranks that may go on, in the order in which they were woken. The caller takes them out.
  std::vector<std::int32_t>& woken() { return woken_; }

 protected:
  /// A send or receive that a rank has started.
  struct Operation {
    MessageId message = kNone;
    std::uint32_t step_number = 0;
    bool is_send = false;
    bool in_batch = false;
  };

  Operation operation_of(MetaStep part, std::size_t step_number, bool in_batch) const {
    const bool is_send = part.type() == MetaStepType::SEND_FORWARD || part.type() == MetaStepType::SEND_BACKWARD;
    const bool is_gradient = part.type() >= MetaStepType::SEND_BACKWARD;
    const int to_receiver = is_send ? (is_gradient ? -1 : 1) : 0;
    const std::size_t key = links_.key(part.stage_value() + to_receiver, part.microbatch_value());
    return {static_cast<MessageId>(is_gradient ? links_.num_keys() + key : key),
            static_cast<std::uint32_t>(step_number), is_send, in_batch};
  }
  /// The operation's own transfer is done. A receive in a batch has arrived when all of the batch is done.
  void complete(int rank, const Operation& operation) {
    if (operation.in_batch) {
      complete_in_batch(rank, operation);
    } else if (!operation.is_send) {
      arrive(rank, operation.message);
    }
  }
  void arrive(int rank, MessageId message) {
    arrived_[message] = 1;
    MessageId& blocked_on = blocked_on_[static_cast<std::size_t>(rank)];
    if (blocked_on != message) return;
    blocked_on = kNone;
    woken_.push_back(rank);
  }

  const Schedule& schedule_;
  const StageLinks& links_;

 private:
  void complete_in_batch(int rank, const Operation& operation);

  std::vector<std::uint8_t> arrived_;  ///< by message
  std::vector<MessageId> blocked_on_;  ///< by rank
  std::vector<std::int32_t> woken_;
  std::vector<std::vector<std::uint8_t>>
      batch_open_;  ///< by rank and index of the first sub-step: transfers that are not done
};

/// Compute steps only: what a stage computes is there for the next one at once.
class DirectMessages : public MessageBoard {
 public:
  using MessageBoard::MessageBoard;
  static constexpr bool kDirect = true;

  void computed(MetaStep part);
  bool post(int /*rank*/, std::size_t /*step_number*/) { return true; }
};

/// Tags and buffers, as MPI has them: a send completes at once, a receive when its message was sent.
class TaggedMessages : public MessageBoard {
 public:
  TaggedMessages(const Schedule& schedule, const StageLinks& links);
  static constexpr bool kDirect = false;

  bool post(int rank, std::size_t step_number);

 private:
  void post_part(int rank, const Operation& operation, int peer);

  static constexpr std::uint32_t kNothing = 0xffff'ffff;
  static constexpr std::uint32_t kSent = 0xffff'fffe;
  static constexpr std::uint32_t kBatchBit = 0x8000'0000;
  std::vector<std::uint32_t> other_end_;  ///< by message: kNothing, kSent, or the step in which the receiver posted it
};

}  // namespace ppctl
