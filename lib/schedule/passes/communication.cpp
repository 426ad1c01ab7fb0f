#include <utility>

#include "schedule/links.hpp"
#include "schedule/passes/passes.hpp"

// A tensor travels where the graph of stages has an edge between two ranks: stage s sends activations to the owner of
// stage s + 1 and gradients to the owner of stage s - 1. A send stands directly after its producer and a receive
// directly before its consumer.
//
// A backend without tags matches messages by their order, so a rank has to post its receives from a peer in the order
// in which the peer sends them. Nearly always that is the order of consumption. Where it is not, the messages that
// overtake are posted with the one that is needed: a receive only posts, so posting it early costs a buffer and blocks
// nobody.

namespace ppctl {
namespace {

enum Kind { kForward = 0, kBackward = 1 };

/// A tensor of a stage and microbatch under way: for activations and gradients alike, named as its receiver's step
/// names it.
struct Message {
  int stage = -1;
  int microbatch = -1;
  friend bool operator==(const Message&, const Message&) = default;
};

/// Walks the messages of one kind from one rank to another in the order of their sends.
class SendCursor {
 public:
  SendCursor(const StageLinks& links, const RankSteps& sender, Kind kind, int from, int to)
      : links_(&links), sender_(&sender), kind_(kind), to_(from == to ? kNobody : to) {}

  /// The next one, or one without a stage at the end.
  Message next() {
    for (; step_ < sender_->steps.size(); ++step_, part_ = 0) {
      const MetaStep step = sender_->steps[step_];
      if (!is_composite(step.type())) {
        const Message message = sent_by(step);
        if (message.stage < 0) continue;
        ++step_;
        return message;
      }
      while (part_ < step.sub_count()) {
        const Message message = sent_by(sender_->sub_steps_of(step)[static_cast<std::size_t>(part_++)]);
        if (message.stage >= 0) return message;
      }
    }
    return {};
  }

 private:
  static constexpr int kNobody = -2;

  Message sent_by(MetaStep part) const {
    if (kind_ == kForward ? part.type() != MetaStepType::FORWARD : !makes_input_gradient(part.type())) return {};
    const int stage = part.stage_value();
    const int microbatch = part.microbatch_value();
    const int to = kind_ == kForward ? links_->downstream(stage, microbatch) : links_->upstream(stage, microbatch);
    if (to != to_) return {};
    return {kind_ == kForward ? stage + 1 : stage - 1, microbatch};
  }

  const StageLinks* links_;
  const RankSteps* sender_;
  Kind kind_;
  int to_;
  std::size_t step_ = 0;
  int part_ = 0;
};

/// Lowers one rank. Neighbours' steps must still be compute steps only.
class RankLowering {
 public:
  /// `posted_early` has a bit for each kind, stage and microbatch, or is empty as long as no message was posted early.
  RankLowering(const Schedule& schedule, const StageLinks& links, int rank, std::vector<bool>& posted_early)
      : links_(links),
        rank_(rank),
        source_(schedule.ranks[static_cast<std::size_t>(rank)]),
        posted_early_(posted_early) {
    const int before = (rank + links.pp() - 1) % links.pp();
    const int after = (rank + 1) % links.pp();
    for (const Kind kind : {kForward, kBackward}) {
      // Placements connect neighbours on the ring of ranks only; with two ranks both neighbours are the same one.
      cursors_.push_back({links, schedule.ranks[static_cast<std::size_t>(before)], kind, before, rank});
      cursors_.push_back({links, schedule.ranks[static_cast<std::size_t>(after)], kind, after, rank});
    }
  }

  std::vector<MetaStep> run() {
    out_.reserve(source_.steps.size() + count_messages());
    for (const MetaStep step : source_.steps) {
      for_each_part(source_, step, [&](MetaStep part) { receive_inputs(part); });
      out_.push_back(step);
      for_each_part(source_, step, [&](MetaStep part) { send_outputs(part); });
    }
    return std::move(out_);
  }

 private:
  std::size_t count_messages() const {
    std::size_t count = 0;
    for (const MetaStep step : source_.steps) {
      for_each_part(source_, step, [&](MetaStep part) {
        const int stage = part.stage_value();
        const int microbatch = part.microbatch_value();
        if (part.type() == MetaStepType::BACKWARD_WEIGHT) return;
        count += is_remote(links_.upstream(stage, microbatch)) + is_remote(links_.downstream(stage, microbatch));
      });
    }
    return count;
  }

  bool is_remote(int rank) const { return rank >= 0 && rank != rank_; }

  void send_outputs(MetaStep part) {
    const int stage = part.stage_value();
    const int microbatch = part.microbatch_value();
    if (part.type() == MetaStepType::FORWARD) {
      const int to = links_.downstream(stage, microbatch);
      if (is_remote(to)) push(MetaStepType::SEND_FORWARD, {stage, microbatch}, to);
    } else if (makes_input_gradient(part.type())) {
      const int to = links_.upstream(stage, microbatch);
      if (is_remote(to)) push(MetaStepType::SEND_BACKWARD, {stage, microbatch}, to);
    }
  }

  void receive_inputs(MetaStep part) {
    const int stage = part.stage_value();
    const int microbatch = part.microbatch_value();
    if (part.type() == MetaStepType::FORWARD) {
      const int from = links_.upstream(stage, microbatch);
      if (is_remote(from)) receive(kForward, {stage, microbatch}, from);
    } else if (makes_input_gradient(part.type())) {
      const int from = links_.downstream(stage, microbatch);
      if (is_remote(from)) receive(kBackward, {stage, microbatch}, from);
    }
  }

  void receive(Kind kind, Message wanted, int from) {
    if (was_posted_early(kind, wanted)) return;
    SendCursor& cursor = cursors_[static_cast<std::size_t>(kind) * 2 + (from == (rank_ + 1) % links_.pp() ? 1 : 0)];
    const MetaStepType type = kind == kForward ? MetaStepType::RECV_FORWARD : MetaStepType::RECV_BACKWARD;
    for (Message message = cursor.next(); message.stage >= 0; message = cursor.next()) {
      push(type, message, from);
      if (message == wanted) return;
      remember_early(kind, message);
    }
    push(type, wanted, from);  // Nobody sends it: the verifier will say so.
  }

  std::size_t bit(Kind kind, Message message) const {
    return static_cast<std::size_t>(kind) * links_.num_keys() + links_.key(message.stage, message.microbatch);
  }
  bool was_posted_early(Kind kind, Message message) const {
    return !posted_early_.empty() && posted_early_[bit(kind, message)];
  }
  void remember_early(Kind kind, Message message) {
    if (posted_early_.empty()) posted_early_.resize(2 * links_.num_keys());
    posted_early_[bit(kind, message)] = true;
  }

  void push(MetaStepType type, Message message, int peer) {
    out_.emplace_back(type, StageId(message.stage), MicrobatchId(message.microbatch), PipelineRank(peer));
  }

  const StageLinks& links_;
  int rank_;
  const RankSteps& source_;
  std::vector<bool>& posted_early_;
  std::vector<SendCursor> cursors_;
  std::vector<MetaStep> out_;
};

}  // namespace

void apply_communication(Schedule& schedule, const PassOptions& /*options*/) {
  const StageLinks links(schedule);
  std::vector<bool> posted_early;
  std::vector<std::vector<MetaStep>> lowered;
  lowered.reserve(schedule.ranks.size());
  for (int rank = 0; rank < schedule.pp(); ++rank) {
    lowered.push_back(RankLowering(schedule, links, rank, posted_early).run());
  }
  for (std::size_t rank = 0; rank < lowered.size(); ++rank) schedule.ranks[rank].steps = std::move(lowered[rank]);
}

}  // namespace ppctl
