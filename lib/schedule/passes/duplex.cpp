#include <algorithm>
#include <limits>
#include <span>

#include "schedule/links.hpp"
#include "schedule/passes/passes.hpp"

// Between two beats of a rank, all that it sends to and receives from one peer becomes one batch, wherever other steps
// stand in between.
//
// Whoever consumes a receive of a batch waits for the whole batch. So a batch must hold nothing that its peer reaches
// later than what is waited for; otherwise it would make the rank wait longer, or forever. That is what is checked:
// each of its sends is received by the peer in a gap that is not after the gap in which the peer sends the last of what
// is received here, and all its receives are for one beat. In steady state both ends reach such a pair in the same gap,
// or the receive was posted ahead (overlap_p2p).

namespace ppctl {
namespace {

constexpr std::size_t kMaxBatch = 255;

bool is_send(MetaStepType type) { return type == MetaStepType::SEND_FORWARD || type == MetaStepType::SEND_BACKWARD; }

/// In which gap each message is sent and received, and the beat that uses it. Gap g stands before beat g of its rank.
class MessageGaps {
 public:
  struct Gaps {
    std::uint32_t sent = std::numeric_limits<std::uint32_t>::max();
    std::uint32_t received = std::numeric_limits<std::uint32_t>::max();
    std::uint32_t used = std::numeric_limits<std::uint32_t>::max();
  };

  explicit MessageGaps(const Schedule& schedule) : links_(schedule), gaps_(2 * links_.num_keys()) {
    for (const RankSteps& rank : schedule.ranks) {
      std::uint32_t gap = 0;
      for (const MetaStep step : rank.steps) {
        if (is_p2p(step.type())) {
          (is_send(step.type()) ? of(step).sent : of(step).received) = gap;
        } else if (is_beat(step.type())) {
          for_each_part(rank, step, [&](MetaStep part) { note_use(part, gap); });
          ++gap;
        }
      }
    }
  }

  /// Of the message that this send or receive is about.
  Gaps& of(MetaStep step) {
    const std::size_t key = links_.key(step.stage_value(), step.microbatch_value());
    const auto num_microbatches = static_cast<std::size_t>(links_.num_microbatches());
    switch (step.type()) {
      case MetaStepType::SEND_FORWARD:
        return gaps_[key + num_microbatches];
      case MetaStepType::RECV_FORWARD:
        return gaps_[key];
      case MetaStepType::SEND_BACKWARD:
        return gaps_[links_.num_keys() + key - num_microbatches];
      default:
        return gaps_[links_.num_keys() + key];
    }
  }

 private:
  void note_use(MetaStep part, std::uint32_t beat) {
    const std::size_t key = links_.key(part.stage_value(), part.microbatch_value());
    if (part.type() == MetaStepType::FORWARD) gaps_[key].used = beat;
    if (makes_input_gradient(part.type())) gaps_[links_.num_keys() + key].used = beat;
  }

  StageLinks links_;
  std::vector<Gaps> gaps_;  ///< by message: activations by the stage that receives them, then gradients
};

class RankDuplex {
 public:
  RankDuplex(RankSteps& rank, MessageGaps& gaps) : rank_(rank), gaps_(gaps) {}

  void run() {
    std::vector<MetaStep>& steps = rank_.steps;
    for (std::size_t begin = 0; begin < steps.size();) {
      std::size_t end = begin;
      while (end < steps.size() && !is_beat(steps[end].type())) ++end;
      batch_gap(begin, end);
      if (end < steps.size()) steps[kept_++] = steps[end];
      begin = end + 1;
    }
    steps.resize(kept_);
  }

 private:
  /// Copies the steps of one gap down to `kept_`, with batches in the place of their first members.
  void batch_gap(std::size_t begin, std::size_t end) {
    std::vector<MetaStep>& steps = rank_.steps;
    gap_.assign(steps.begin() + static_cast<std::ptrdiff_t>(begin), steps.begin() + static_cast<std::ptrdiff_t>(end));
    for (std::size_t i = 0; i < gap_.size(); ++i) {
      const MetaStep step = gap_[i];
      if (taken(step)) continue;
      if (!is_p2p(step.type()) || !collect(step.peer(), std::span(gap_).subspan(i))) {
        steps[kept_++] = step;
        continue;
      }
      steps[kept_++] =
          MetaStep::composite(MetaStepType::BATCH_SEND_RECV, static_cast<std::uint32_t>(rank_.sub_steps.size()),
                              static_cast<int>(members_.size()), step.peer());
      rank_.sub_steps.insert(rank_.sub_steps.end(), members_.begin(), members_.end());
      for (MetaStep& other : gap_) {
        if (std::ranges::count(members_, other) > 0) other = kTaken;
      }
    }
  }

  static constexpr MetaStep kTaken{};
  static bool taken(MetaStep step) { return step == kTaken; }

  /// Finds the members of a batch with this peer; false if there is none.
  bool collect(PipelineRank peer, std::span<const MetaStep> steps) {
    members_.clear();
    bool receives_end = false;
    std::uint32_t used = std::numeric_limits<std::uint32_t>::max();
    for (const MetaStep step : steps) {
      if (!is_p2p(step.type()) || step.peer() != peer) continue;
      if (!is_send(step.type())) {
        // Those for a later beat stay on their own, and so do all after them: receives keep their order.
        if (used == std::numeric_limits<std::uint32_t>::max()) used = gaps_.of(step).used;
        receives_end |= gaps_.of(step).used != used;
        if (receives_end) continue;
      }
      members_.push_back(step);
    }
    return members_.size() >= 2 && members_.size() <= kMaxBatch && is_neutral();
  }

  bool is_neutral() {
    std::uint32_t last_sent = 0;
    bool any_receive = false;
    for (const MetaStep step : members_) {
      if (is_send(step.type())) continue;
      any_receive = true;
      last_sent = std::max(last_sent, gaps_.of(step).sent);
    }
    if (!any_receive) return true;  // Nobody waits for sends before the end.
    return std::ranges::all_of(
        members_, [&](MetaStep step) { return !is_send(step.type()) || gaps_.of(step).received <= last_sent; });
  }

  RankSteps& rank_;
  MessageGaps& gaps_;
  std::size_t kept_ = 0;
  std::vector<MetaStep> gap_;      ///< scratch: the steps of one gap
  std::vector<MetaStep> members_;  ///< scratch: of one batch
};

}  // namespace

void apply_duplex(Schedule& schedule, const PassOptions& /*options*/) {
  MessageGaps gaps(schedule);
  for (RankSteps& rank : schedule.ranks) RankDuplex(rank, gaps).run();
}

}  // namespace ppctl
