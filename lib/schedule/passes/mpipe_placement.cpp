#include "schedule/passes/mpipe_placement.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "schedule/links.hpp"
#include "schedule/passes/insertions.hpp"
#include "schedule/passes/task_order.hpp"

namespace ppctl {
namespace {

/// The body's beats and the encoder's work as tasks.
class MpipeTasks {
 public:
  MpipeTasks(const Schedule& schedule, const MpipeOptions& options)
      : options_(options),
        links_(schedule),
        graph_(schedule.pp()),
        forward_(links_.num_keys(), -1),
        backward_(links_.num_keys(), -1) {
    for (int rank = 0; rank < schedule.pp(); ++rank) add_beats(schedule.ranks[static_cast<std::size_t>(rank)], rank);
    connect_stages();
    add_encoder();
  }

  const TaskGraph& graph() const { return graph_; }

  MpipePlacement placement_of(const TaskOrder& order) const {
    MpipePlacement placement(static_cast<std::size_t>(graph_.num_ranks()));
    std::vector<int> sequence = order.sequence;
    std::ranges::stable_sort(sequence, {}, [&](int task) { return order.starts[static_cast<std::size_t>(task)]; });
    std::vector<std::size_t> beats(placement.size(), 0);
    for (const int task : sequence) {
      const auto rank = static_cast<std::size_t>(graph_[task].rank);
      if (task < num_beats_) {
        ++beats[rank];
        continue;
      }
      MpipeSlot slot = encoder_[static_cast<std::size_t>(task - num_beats_)];
      slot.beat = beats[rank];
      placement[rank].push_back(slot);
    }
    return placement;
  }

 private:
  ChunkCosts costs_of(MetaStep part) const {
    return options_.stages.empty() ? ChunkCosts() : options_.stages[static_cast<std::size_t>(part.stage_value())];
  }

  void add_beats(const RankSteps& rank, int number) {
    int previous = -1;
    for (const MetaStep step : beats_of(rank)) {
      const int beat = num_beats_++;
      double duration = 0.0;
      for_each_part(rank, step, [&](MetaStep part) {
        const ChunkCosts costs = costs_of(part);
        const bool consumes = part.stage_value() == options_.consumer;
        const std::size_t key = links_.key(part.stage_value(), part.microbatch_value());
        if (part.type() == MetaStepType::FORWARD) {
          duration += costs.forward;
          forward_[key] = beat;
          if (consumes) used_.push_back(part.microbatch_value());
          return;
        }
        if (makes_input_gradient(part.type())) {
          duration += costs.dx;
          backward_[key] = beat;
          if (consumes) returned_.push_back(part.microbatch_value());
        }
        if (part.type() != MetaStepType::BACKWARD_INPUT) duration += costs.dw;
      });
      graph_.add(number, duration);
      if (previous >= 0) graph_.wait_for(beat, previous);
      previous = beat;
    }
  }

  void connect_stages() {
    for (int stage = 0; stage + 1 < links_.num_stages(); ++stage) {
      for (int microbatch = 0; microbatch < links_.num_microbatches(); ++microbatch) {
        const std::size_t here = links_.key(stage, microbatch);
        const std::size_t next = links_.key(stage + 1, microbatch);
        send(forward_[here], forward_[next]);
        send(backward_[next], backward_[here]);
      }
    }
  }

  void send(int from, int to) {
    if (from < 0 || to < 0 || from == to) return;
    graph_.wait_for(to, from, graph_[from].rank == graph_[to].rank ? 0.0 : options_.p2p);
  }

  void add_encoder() {
    Lanes forwards;
    for (const int j : used_) {
      const int forward = add(j, MetaStepType::PREPROCESS_FORWARD, options_.load + options_.forward);
      keep_order(forwards, j, forward);
      send(forward, forward_[links_.key(options_.consumer, j)]);
    }
    if (!options_.trains) return;
    Lanes backwards;
    for (const int j : returned_) {
      const int backward = add_backward(j);
      keep_order(backwards, j, backward);
      send(backward_[links_.key(options_.consumer, j)], backward);
    }
  }

  int add(int microbatch, MetaStepType work, double duration) {
    encoder_.push_back({.beat = 0, .microbatch = microbatch, .work = work});
    return graph_.add(owner(microbatch), duration, /*is_free=*/true);
  }

  /// Gives the task that waits for the feature gradients.
  int add_backward(int microbatch) {
    if (!options_.splits_backward) {
      return add(microbatch, MetaStepType::PREPROCESS_BACKWARD, options_.dx + options_.dw);
    }
    const int input = add(microbatch, MetaStepType::PREPROCESS_BACKWARD_INPUT, options_.dx);
    graph_.wait_for(add(microbatch, MetaStepType::PREPROCESS_BACKWARD_WEIGHT, options_.dw), input);
    return input;
  }

  /// The last task by owner and consumer rank.
  using Lanes = std::map<std::pair<int, int>, int>;
  /// Messages from one rank to another come in the order in which they are taken.
  void keep_order(Lanes& lanes, int microbatch, int task) {
    const auto [lane, is_first] =
        lanes.try_emplace({owner(microbatch), links_.owner(options_.consumer, microbatch)}, task);
    if (is_first) return;
    graph_.wait_for(task, lane->second);
    lane->second = task;
  }
  int owner(int microbatch) const { return mpipe_owner(microbatch, links_.pp(), links_.num_microbatches()); }

  const MpipeOptions& options_;
  StageLinks links_;
  TaskGraph graph_;
  int num_beats_ = 0;               ///< the first tasks are the beats, rank by rank
  std::vector<MpipeSlot> encoder_;  ///< of the tasks behind them
  std::vector<int> forward_;        ///< beat by (stage, microbatch)
  std::vector<int> backward_;
  std::vector<int> used_;      ///< microbatches in the order in which their features are used
  std::vector<int> returned_;  ///< and in which feature gradients are made
};

}  // namespace

MpipePlacement place_before_body(const Schedule& schedule, const MpipeOptions& options) {
  MpipePlacement placement(schedule.ranks.size());
  const auto owner = [&](int microbatch) {
    return static_cast<std::size_t>(mpipe_owner(microbatch, schedule.pp(), schedule.num_microbatches));
  };
  for (int j = 0; j < schedule.num_microbatches; ++j) {
    placement[owner(j)].push_back({0, j, MetaStepType::PREPROCESS_FORWARD});
  }
  if (!options.trains) return placement;
  for (int j = 0; j < schedule.num_microbatches; ++j) {
    const std::size_t end = beats_of(schedule.ranks[owner(j)]).size();
    placement[owner(j)].push_back({end, j, MetaStepType::PREPROCESS_BACKWARD});
  }
  return placement;
}

MpipePlacement place_just_in_time(const Schedule& schedule, const MpipeOptions& options) {
  const MpipeTasks tasks(schedule, options);
  return tasks.placement_of(shortest_order(tasks.graph(), options.max_placements));
}

double least_mpipe_length(const Schedule& schedule, const MpipeOptions& options) {
  return least_length(MpipeTasks(schedule, options).graph());
}

}  // namespace ppctl
