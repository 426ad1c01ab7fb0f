#include "schedule/generators/order_time.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace ppctl {
namespace {

class OrderRun {
 public:
  OrderRun(const Schedule& schedule, const std::vector<ChunkCosts>& costs)
      : schedule_(schedule),
        costs_(costs),
        m_(static_cast<std::size_t>(schedule.num_microbatches)),
        forward_(static_cast<std::size_t>(schedule.num_stages()) * m_, kNever),
        backward_(forward_.size(), kNever),
        next_(schedule.ranks.size(), 0),
        free_(schedule.ranks.size(), 0),
        first_(schedule.ranks.size(), kNever) {}

  OrderTime run() {
    std::vector<std::size_t> ready(schedule_.ranks.size());
    for (std::size_t r = 0; r < ready.size(); ++r) ready[r] = r;
    // A rank that runs wakes its neighbours; each rank runs as far as it can.
    while (!ready.empty()) {
      const std::size_t r = ready.back();
      ready.pop_back();
      const auto& steps = schedule_.ranks[r].steps;
      while (next_[r] < steps.size() && run_step(r, steps[next_[r]], ready)) ++next_[r];
    }
    OrderTime time;
    for (std::size_t r = 0; r < next_.size(); ++r) {
      PPCTL_CHECK_EQ(next_[r], schedule_.ranks[r].steps.size());
      time.wall = std::max(time.wall, free_[r]);
      time.span = std::max(time.span, free_[r] - first_[r]);
    }
    return time;
  }

 private:
  static constexpr double kNever = -1;

  std::size_t place(int stage, MetaStep step) const {
    return static_cast<std::size_t>(stage) * m_ + static_cast<std::size_t>(step.microbatch().value);
  }

  /// When the step's input is there, or kNever.
  double input_at(MetaStep step) const {
    const int stage = step.stage().value;
    switch (step.type()) {
      case MetaStepType::FORWARD:
        return stage == 0 ? 0 : forward_[place(stage, step)];
      case MetaStepType::BACKWARD_WEIGHT:
        return 0;
      default:
        return backward_[place(stage, step)];
    }
  }

  bool run_step(std::size_t r, MetaStep step, std::vector<std::size_t>& ready) {
    const double at = input_at(step);
    if (at == kNever) return false;
    const int stage = step.stage().value;
    const ChunkCosts& cost = costs_[static_cast<std::size_t>(stage)];
    const double start = std::max(free_[r], at);
    if (first_[r] == kNever) first_[r] = start;
    free_[r] = start + duration(step.type(), cost);
    const bool forward = step.type() == MetaStepType::FORWARD;
    if (step.type() == MetaStepType::BACKWARD_WEIGHT || (!forward && stage == 0)) return true;
    if (forward && stage == schedule_.num_stages() - 1) {
      backward_[place(stage, step)] = free_[r];
      return true;
    }
    const int to = forward ? stage + 1 : stage - 1;
    const auto to_rank = static_cast<std::size_t>(
        schedule_.placement.rank_of(StageId(to), step.microbatch(), schedule_.num_microbatches).value);
    (forward ? forward_ : backward_)[place(to, step)] = free_[r] + (to_rank == r ? 0 : cost.p2p);
    if (to_rank != r) ready.push_back(to_rank);
    return true;
  }

  static double duration(MetaStepType type, const ChunkCosts& cost) {
    switch (type) {
      case MetaStepType::FORWARD:
        return cost.forward;
      case MetaStepType::BACKWARD:
        return cost.dx + cost.dw;
      case MetaStepType::BACKWARD_INPUT:
        return cost.dx;
      default:
        return cost.dw;
    }
  }

  const Schedule& schedule_;
  const std::vector<ChunkCosts>& costs_;
  std::size_t m_;
  std::vector<double> forward_;   // when the input of (stage, microbatch)'s forward is there
  std::vector<double> backward_;  // and of its backward
  std::vector<std::size_t> next_;
  std::vector<double> free_;
  std::vector<double> first_;
};

}  // namespace

OrderTime time_order(const Schedule& schedule, const std::vector<ChunkCosts>& costs) {
  return OrderRun(schedule, costs).run();
}

}  // namespace ppctl
