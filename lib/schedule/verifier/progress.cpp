#include "schedule/verifier/progress.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/text.hpp"
#include "schedule/verifier/in_order_messages.hpp"
#include "schedule/verifier/messages.hpp"

namespace ppctl {
namespace {

template <class Messages>
class Progress {
 public:
  Progress(const Schedule& schedule, const StageLinks& links, Messages& messages)
      : schedule_(schedule), links_(links), messages_(messages), next_step_(schedule.ranks.size()) {}

  /// Whether all ranks come to their end.
  bool run() {
    std::vector<std::int32_t> turn;
    for (int rank = 0; rank < links_.pp(); ++rank) turn.push_back(rank);
    while (!turn.empty()) {
      for (const int rank : turn) {
        if (!run_rank(rank)) return false;
      }
      turn.clear();
      turn.swap(messages_.woken());
    }
    for (std::size_t rank = 0; rank < next_step_.size(); ++rank) {
      if (next_step_[rank] < schedule_.ranks[rank].steps.size()) return false;
    }
    return true;
  }

  /// Of a rank that is blocked.
  std::size_t next_step(int rank) const { return next_step_[static_cast<std::size_t>(rank)]; }

 private:
  /// Runs a rank until it is blocked or done. False when a message can never be transferred.
  bool run_rank(int rank) {
    const RankSteps& steps = schedule_.ranks[static_cast<std::size_t>(rank)];
    const std::size_t num_steps = steps.steps.size();
    std::size_t& next = next_step_[static_cast<std::size_t>(rank)];
    for (; next < num_steps; ++next) {
      const MetaStep step = steps.steps[next];
      if (is_compute(step.type())) {
        if (!has_input(rank, step)) return true;
        computed(step);
      } else if (step.type() == MetaStepType::OVERLAP_B_F) {
        for (const MetaStep part : steps.sub_steps_of(step)) {
          if (!has_input(rank, part)) return true;
        }
        for (const MetaStep part : steps.sub_steps_of(step)) computed(part);
      } else if (is_p2p(step.type()) || step.type() == MetaStepType::BATCH_SEND_RECV) {
        if (!messages_.post(rank, next)) return false;
      }
    }
    return true;
  }

  bool has_input(int rank, MetaStep part) {
    const int stage = part.stage_value();
    const int microbatch = part.microbatch_value();
    std::size_t message = links_.key(stage, microbatch);
    int from = -1;
    if (part.type() == MetaStepType::FORWARD) {
      from = links_.upstream(stage, microbatch);
    } else if (makes_input_gradient(part.type())) {
      from = links_.downstream(stage, microbatch);
      message += links_.num_keys();
    }
    if (from < 0 || from == rank || messages_.has_arrived(static_cast<MessageId>(message))) return true;
    messages_.block(rank, static_cast<MessageId>(message));
    return false;
  }

  void computed(MetaStep part) {
    if constexpr (Messages::kDirect) messages_.computed(part);
  }

  const Schedule& schedule_;
  const StageLinks& links_;
  Messages& messages_;
  std::vector<std::size_t> next_step_;
};

/// The step that a message's receiver posts for it, and the rank from which it comes.
struct AwaitedMessage {
  MetaStep receive;
  int from;
};
AwaitedMessage awaited_message(const StageLinks& links, MessageId message) {
  const bool forward = message < links.num_keys();
  const auto key = static_cast<int>(forward ? message : message - links.num_keys());
  const int stage = key / links.num_microbatches();
  const int microbatch = key % links.num_microbatches();
  const int from = forward ? links.upstream(stage, microbatch) : links.downstream(stage, microbatch);
  return {MetaStep(forward ? MetaStepType::RECV_FORWARD : MetaStepType::RECV_BACKWARD, StageId(stage),
                   MicrobatchId(microbatch), PipelineRank(from)),
          from};
}

/// Whoever waits, waits for one message of one rank; following that from any blocked rank ends in a cycle.
std::vector<int> find_cycle(const StageLinks& links, const MessageBoard& messages) {
  std::vector<int> visited_as(static_cast<std::size_t>(links.pp()), -1);
  std::vector<int> path;
  int rank = 0;
  while (messages.blocked_on(rank) == MessageBoard::kNone) ++rank;
  while (messages.blocked_on(rank) != MessageBoard::kNone && visited_as[static_cast<std::size_t>(rank)] < 0) {
    visited_as[static_cast<std::size_t>(rank)] = static_cast<int>(path.size());
    path.push_back(rank);
    rank = awaited_message(links, messages.blocked_on(rank)).from;
  }
  path.erase(path.begin(), path.begin() + std::max(0, visited_as[static_cast<std::size_t>(rank)]));
  return path;
}

template <class Messages>
void add_deadlock(const Schedule& schedule, const StageLinks& links, const Messages& messages,
                  const Progress<Messages>& progress, std::string_view semantics, FaultList& faults) {
  const std::vector<int> cycle = find_cycle(links, messages);
  for (const int rank : cycle) {
    const auto [receive, from] = awaited_message(links, messages.blocked_on(rank));
    const RankSteps& peer = schedule.ranks[static_cast<std::size_t>(from)];
    const std::size_t peer_step = progress.next_step(from);
    faults.add(
        rank, progress.next_step(rank),
        fmt::format("deadlock of {} ranks with {}: waits for {} from rank {}, which is at step {} ({})", cycle.size(),
                    semantics, format_step(receive), from, peer_step, format_step(peer, peer.steps[peer_step])));
  }
}

void add_mismatch(const Schedule& schedule, const InOrderMessages::Mismatch& mismatch, FaultList& faults) {
  const RankSteps& peer = schedule.ranks[static_cast<std::size_t>(mismatch.peer)];
  faults.add(
      mismatch.rank, mismatch.step_number,
      fmt::format("with in-order rendezvous it meets step {} ({}) of rank {} on their communicator, which is not its "
                  "counterpart",
                  mismatch.peer_step_number, format_step(peer, peer.steps[mismatch.peer_step_number]), mismatch.peer));
}

template <class Messages>
bool runs_through(const Schedule& schedule, const StageLinks& links, Messages& messages, std::string_view semantics,
                  FaultList& faults) {
  Progress<Messages> progress(schedule, links, messages);
  if (progress.run()) return true;
  if constexpr (std::is_same_v<Messages, InOrderMessages>) {
    if (messages.mismatch()) {
      add_mismatch(schedule, *messages.mismatch(), faults);
      return false;
    }
  }
  add_deadlock(schedule, links, messages, progress, semantics, faults);
  return false;
}

}  // namespace

void check_progress(const Schedule& schedule, const StageLinks& links, const VerifyOptions& options,
                    FaultList& faults) {
  if (!options.communication) {
    DirectMessages messages(schedule, links);
    runs_through(schedule, links, messages, "compute steps only", faults);
    return;
  }
  // A run in which every message waits for its turn is a run with tags and buffers too, so the stricter proof is enough
  // for both. Where it fails, a deadlock that is there with tags already is the clearer answer.
  FaultList in_order_faults(schedule);
  if (options.in_order_rendezvous) {
    InOrderMessages messages(schedule, links, options.communicators);
    if (runs_through(schedule, links, messages, "in-order rendezvous", in_order_faults)) return;
  }
  TaggedMessages messages(schedule, links);
  if (!runs_through(schedule, links, messages, "tags and buffered sends", faults)) return;
  for (ScheduleFault& fault : in_order_faults.take()) faults.add(std::move(fault));
}

}  // namespace ppctl
