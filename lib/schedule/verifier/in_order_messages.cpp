#include "schedule/verifier/in_order_messages.hpp"

#include <algorithm>

namespace ppctl {

InOrderMessages::InOrderMessages(const Schedule& schedule, const StageLinks& links, CommunicatorMap map)
    : MessageBoard(schedule, links), map_(map), channels_(4 * schedule.ranks.size()) {}

std::size_t InOrderMessages::channel_of(int rank, const Operation& operation, int peer) const {
  const int from = operation.is_send ? rank : peer;
  const int to = operation.is_send ? peer : rank;
  // Placements connect neighbours on the ring of ranks only, so that a pair is named by its lower end; with two ranks
  // there is one pair.
  const bool upwards = to == from + 1 || (from == links_.pp() - 1 && to == 0 && links_.pp() > 2);
  const auto pair = static_cast<std::size_t>(upwards ? from : to);
  const std::size_t kind = operation.message >= links_.num_keys() ? 1 : 0;
  switch (map_) {
    case CommunicatorMap::kOnePerPair:
      return pair;
    case CommunicatorMap::kOnePerDirection:
      return 2 * pair + (upwards ? 1 : 0);
    case CommunicatorMap::kOnePerDirectionAndKind:
      return 4 * pair + (upwards ? 2 : 0) + kind;
  }
  return pair;
}

bool InOrderMessages::post(int rank, std::size_t step_number) {
  const RankSteps& steps = schedule_.ranks[static_cast<std::size_t>(rank)];
  const MetaStep step = steps.steps[step_number];
  const int peer = step.peer().value;
  if (!is_composite(step.type())) {
    const Operation operation = operation_of(step, step_number, false);
    return post_group(rank, peer, channel_of(rank, operation, peer), {&operation, 1});
  }
  // One operation on each communicator that the batch touches.
  batch_.clear();
  for (const MetaStep part : steps.sub_steps_of(step)) batch_.push_back(operation_of(part, step_number, true));
  std::ranges::stable_sort(batch_, {}, [&](const Operation& operation) { return channel_of(rank, operation, peer); });
  for (std::size_t begin = 0, end = 0; begin < batch_.size(); begin = end) {
    const std::size_t channel = channel_of(rank, batch_[begin], peer);
    while (end < batch_.size() && channel_of(rank, batch_[end], peer) == channel) ++end;
    if (!post_group(rank, peer, channel, std::span(batch_).subspan(begin, end - begin))) return false;
  }
  return true;
}

bool InOrderMessages::post_group(int rank, int peer, std::size_t index, std::span<const Operation> group) {
  Channel& channel = channels_[index];
  if (group.size() == 1 && channel.head < channel.pending.size() && channel.rank != rank) {
    // The common case, without a copy: one operation meets the next of its peer.
    const Operation head = channel.pending[channel.head];
    if (head.message == group[0].message && head.is_send != group[0].is_send) {
      if (++channel.head == channel.pending.size()) {
        channel.pending.clear();
        channel.head = 0;
      }
      complete(peer, head);
      complete(rank, group[0]);
      return true;
    }
  }
  group_.assign(group.begin(), group.end());
  while (!group_.empty() && channel.head < channel.pending.size() && channel.rank != rank) {
    if (!meet_head(rank, peer, channel, group_)) return false;
  }
  if (group_.empty()) return true;
  channel.rank = rank;
  channel.pending.insert(channel.pending.end(), group_.begin(), group_.end());
  return true;
}

bool InOrderMessages::meet_head(int rank, int peer, Channel& channel, std::vector<Operation>& group) {
  const std::uint32_t head_step = channel.pending[channel.head].step_number;
  const auto mismatch = [&] {
    mismatch_ = Mismatch{rank, group.front().step_number, peer, head_step};
    return false;
  };
  const auto in_head_group = [&](std::size_t i) {
    return i < channel.pending.size() && channel.pending[i].step_number == head_step;
  };
  for (std::size_t i = 0; i < group.size();) {
    const Operation mine = group[i];
    std::size_t other = channel.head;
    while (in_head_group(other) && channel.pending[other].is_send == mine.is_send) ++other;
    if (!in_head_group(other)) {
      ++i;  // Meets a later group, if this one is used up.
      continue;
    }
    if (channel.pending[other].message != mine.message) return mismatch();
    complete(peer, channel.pending[other]);
    complete(rank, mine);
    pop(channel, other);
    group.erase(group.begin() + static_cast<std::ptrdiff_t>(i));
  }
  // Both are operations that run to their end before the next: what is left on both sides waits for each other.
  if (!group.empty() && in_head_group(channel.head)) return mismatch();
  return true;
}

void InOrderMessages::pop(Channel& channel, std::size_t index) {
  // What stands before it in its group moves up; the head is an index, so that taking the first costs nothing.
  for (std::size_t i = index; i > channel.head; --i) channel.pending[i] = channel.pending[i - 1];
  if (++channel.head == channel.pending.size()) {
    channel.pending.clear();
    channel.head = 0;
  }
}

}  // namespace ppctl
