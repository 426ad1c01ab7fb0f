#include "schedule/generators/v_squeeze.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace ppctl {
namespace {

enum class Time { kForwards, kBackwards };

/// How many steps ahead a waiting rank looks: one repeat of the pattern.
constexpr std::size_t kWindow = 6;

/// Runs V orders slot by slot, forwards or backwards in time. Backwards, orders come reversed and microbatches count
/// from the last, so that both directions look alike: W takes memory and F gives it back, and a step waits for those
/// that depend on it.
class VRun {
 public:
  VRun(VOrders orders, int peak_chunks, Time time, std::size_t window)
      : waiting_(std::move(orders)),
        peak_(peak_chunks),
        backwards_(time == Time::kBackwards),
        window_(window),
        p_(static_cast<int>(waiting_.size())),
        held_(waiting_.size(), 0),
        heads_(waiting_.size(), 0),
        taken_(waiting_.size()) {
    for (std::vector<int>& counts : done_) counts.assign(static_cast<std::size_t>(2 * p_), 0);
    for (std::size_t r = 0; r < taken_.size(); ++r) taken_[r].reserve(waiting_[r].size());
  }

  /// The number of slots until every step is done.
  int run() {
    std::size_t left = 0;
    for (const auto& order : waiting_) left += order.size();
    int slots = 0;
    std::vector<std::pair<int, VStep>> running;
    while (left > 0) {
      running.clear();
      for (int r = 0; r < p_; ++r) {
        const std::size_t place = choose(r);
        if (place != kNone) running.emplace_back(r, take(r, place));
      }
      PPCTL_CHECK(!running.empty(), "a V order deadlocks with {} steps left", left);
      for (const auto& [r, step] : running) ++count(step.type, stage(r, step.chunk));
      left -= running.size();
      ++slots;
    }
    return slots;
  }

  VOrders take_orders() { return std::move(taken_); }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  int stage(int r, int chunk) const { return chunk == 0 ? r : 2 * p_ - 1 - r; }
  int& count(MetaStepType type, int at_stage) { return done_[index_of(type)][static_cast<std::size_t>(at_stage)]; }
  int count(MetaStepType type, int at_stage) const { return done_[index_of(type)][static_cast<std::size_t>(at_stage)]; }
  static std::size_t index_of(MetaStepType type) {
    return type == MetaStepType::FORWARD ? 0 : type == MetaStepType::BACKWARD_INPUT ? 1 : 2;
  }

  /// Whether the steps that this one waits for are done. Each kind runs in microbatch order, so counts suffice.
  bool is_ready(int r, const VStep& step) const {
    const int at = stage(r, step.chunk);
    const int last = 2 * p_ - 1;
    const auto done = [&](MetaStepType type, int other) { return count(type, other) > step.microbatch; };
    switch (step.type) {
      case MetaStepType::FORWARD:
        if (!backwards_) return at == 0 || done(MetaStepType::FORWARD, at - 1);
        return at == last ? done(MetaStepType::BACKWARD_INPUT, at) : done(MetaStepType::FORWARD, at + 1);
      case MetaStepType::BACKWARD_INPUT:
        if (!backwards_)
          return at == last ? done(MetaStepType::FORWARD, at) : done(MetaStepType::BACKWARD_INPUT, at + 1);
        return done(MetaStepType::BACKWARD_WEIGHT, at) && (at == 0 || done(MetaStepType::BACKWARD_INPUT, at - 1));
      default:
        return backwards_ || done(MetaStepType::BACKWARD_INPUT, at);
    }
  }

  int memory_of(MetaStepType type) const {
    if (type == MetaStepType::BACKWARD_INPUT) return 0;
    return (type == MetaStepType::FORWARD) != backwards_ ? 1 : -1;
  }

  /// The place, among the rank's waiting steps, of the first that is ready and whose move to the front keeps the peak;
  /// forwards in time a W only if there is no other.
  std::size_t choose(int r) const {
    const std::vector<VStep>& order = waiting_[static_cast<std::size_t>(r)];
    const std::size_t head = heads_[static_cast<std::size_t>(r)];
    const std::size_t end = std::min(order.size(), head + window_);
    int held = held_[static_cast<std::size_t>(r)];
    int most = held;
    std::size_t weight = kNone;
    for (std::size_t place = head; place < end; ++place) {
      const VStep& step = order[place];
      const int memory = memory_of(step.type);
      if ((memory <= 0 || most + 1 <= peak_) && is_ready(r, step)) {
        const bool can_wait = step.type == MetaStepType::BACKWARD_WEIGHT && !backwards_;
        if (!can_wait) return place;
        if (weight == kNone) weight = place;
      }
      held += memory;
      most = std::max(most, held);
    }
    return weight;
  }

  VStep take(int r, std::size_t place) {
    std::vector<VStep>& order = waiting_[static_cast<std::size_t>(r)];
    std::size_t& head = heads_[static_cast<std::size_t>(r)];
    const VStep step = order[place];
    std::move_backward(order.begin() + static_cast<std::ptrdiff_t>(head),
                       order.begin() + static_cast<std::ptrdiff_t>(place),
                       order.begin() + static_cast<std::ptrdiff_t>(place) + 1);
    ++head;
    held_[static_cast<std::size_t>(r)] += memory_of(step.type);
    taken_[static_cast<std::size_t>(r)].push_back(step);
    return step;
  }

  VOrders waiting_;
  int peak_;
  bool backwards_;
  std::size_t window_;
  int p_;
  std::vector<int> held_;
  std::vector<std::size_t> heads_;
  VOrders taken_;
  std::vector<int> done_[3];  // F, I, W by stage
};

/// The same orders as a run in the other direction of time sees them.
VOrders reversed(VOrders orders, int num_microbatches) {
  for (std::vector<VStep>& order : orders) {
    std::reverse(order.begin(), order.end());
    for (VStep& step : order) step.microbatch = num_microbatches - 1 - step.microbatch;
  }
  return orders;
}

}  // namespace

void squeeze(VOrders& orders, int num_microbatches, int peak_chunks) {
  const int before = VRun(orders, peak_chunks, Time::kForwards, 1).run();
  VRun early(orders, peak_chunks, Time::kForwards, kWindow);
  early.run();
  VRun late(reversed(early.take_orders(), num_microbatches), peak_chunks, Time::kBackwards, kWindow);
  if (late.run() < before) orders = reversed(late.take_orders(), num_microbatches);
}

}  // namespace ppctl
