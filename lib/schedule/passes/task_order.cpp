#include "schedule/passes/task_order.hpp"

#include <algorithm>
#include <limits>
#include <queue>
#include <random>
#include <utility>

#include "base/error.hpp"

namespace ppctl {
namespace {

constexpr double kTolerance = 1e-9;  ///< of a length, relative

/// The two directions of time: a graph is laid out from its beginning or from its end.
enum class Direction : std::uint8_t { kForward, kBackward };

const std::vector<TaskGraph::Edge>& behind(const TaskGraph::Task& task, Direction direction) {
  return direction == Direction::kForward ? task.after : task.before;
}
const std::vector<TaskGraph::Edge>& ahead(const TaskGraph::Task& task, Direction direction) {
  return direction == Direction::kForward ? task.before : task.after;
}

/// When a rank is taken, in ascending order.
class BusyTimes {
 public:
  /// Takes the first gap of `duration` at `earliest` or later; gives its beginning.
  double take(double earliest, double duration, double tolerance) {
    auto next = std::ranges::upper_bound(taken_, earliest, {}, &Interval::begin);
    double begin = earliest;
    if (next != taken_.begin()) begin = std::max(begin, std::prev(next)->end);
    for (; next != taken_.end() && next->begin + tolerance < begin + duration; ++next) {
      begin = std::max(begin, next->end);
    }
    if (duration > 0.0) taken_.insert(next, {begin, begin + duration});
    return begin;
  }

 private:
  struct Interval {
    double begin;
    double end;
  };
  std::vector<Interval> taken_;
};

/// One serial list schedule after another over one graph.
class ListScheduler {
 public:
  explicit ListScheduler(const TaskGraph& graph) : graph_(graph) {
    for (std::size_t task = 0; task < graph.size(); ++task) total_ += graph[static_cast<int>(task)].duration;
  }

  std::int64_t num_placements() const { return num_placements_; }

  /// Of the tasks whose predecessors are placed, the one with the lowest priority comes next, at the earliest time at
  /// which its rank is free for long enough. With kBackward time runs from the end of the step.
  TaskOrder lay_out(const std::vector<double>& priorities, Direction direction) {
    TaskOrder order;
    order.starts.assign(graph_.size(), 0.0);
    order.sequence.reserve(graph_.size());
    std::vector<std::size_t> missing(graph_.size());
    std::vector<BusyTimes> busy(static_cast<std::size_t>(graph_.num_ranks()));
    using Entry = std::pair<double, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (std::size_t id = 0; id < graph_.size(); ++id) {
      missing[id] = ahead(graph_[static_cast<int>(id)], direction).size();
      if (missing[id] == 0) ready.emplace(priorities[id], static_cast<int>(id));
    }
    while (!ready.empty()) {
      const int id = ready.top().second;
      const TaskGraph::Task& task = graph_[id];
      double& start = order.starts[static_cast<std::size_t>(id)];  // so far: when its predecessors allow it
      start = busy[static_cast<std::size_t>(task.rank)].take(start, task.duration, kTolerance * total_);
      const double end = start + task.duration;
      order.length = std::max(order.length, end);
      order.sequence.push_back(id);
      ready.pop();
      for (const auto [next, delay] : behind(task, direction)) {
        double& earliest = order.starts[static_cast<std::size_t>(next)];
        earliest = std::max(earliest, end + delay);
        if (--missing[static_cast<std::size_t>(next)] == 0) {
          ready.emplace(priorities[static_cast<std::size_t>(next)], next);
        }
      }
    }
    PPCTL_CHECK_EQ(order.sequence.size(), graph_.size());
    num_placements_ += static_cast<std::int64_t>(graph_.size());
    return order;
  }

 private:
  const TaskGraph& graph_;
  double total_ = 0.0;
  std::int64_t num_placements_ = 0;
};

/// The longest chain from each task's start to the end of the step, or with kBackward from its beginning to the task's
/// end.
std::vector<double> longest_chains(const TaskGraph& graph, Direction direction) {
  std::vector<double> chains(graph.size(), 0.0);
  std::vector<std::size_t> missing(graph.size());
  std::vector<int> ready;
  for (std::size_t id = 0; id < graph.size(); ++id) {
    missing[id] = behind(graph[static_cast<int>(id)], direction).size();
    if (missing[id] == 0) ready.push_back(static_cast<int>(id));
  }
  while (!ready.empty()) {
    const TaskGraph::Task& task = graph[ready.back()];
    const double chain = chains[static_cast<std::size_t>(ready.back())] += task.duration;
    ready.pop_back();
    for (const auto [previous, delay] : ahead(task, direction)) {
      double& longest = chains[static_cast<std::size_t>(previous)];
      longest = std::max(longest, delay + chain);
      if (--missing[static_cast<std::size_t>(previous)] == 0) ready.push_back(previous);
    }
  }
  return chains;
}

/// What one rank knows of a task: the least that comes before it, and behind it.
struct Window {
  double head;
  double duration;
  double tail;
};

/// The step's length if only this rank were ever taken, and tasks could be interrupted (Jackson's preemptive schedule:
/// of those that may run, always the one with the longest tail).
double preemptive_length(std::vector<Window> tasks) {
  std::ranges::sort(tasks, {}, &Window::head);
  const auto shorter_tail = [](const Window& a, const Window& b) { return a.tail < b.tail; };
  std::priority_queue<Window, std::vector<Window>, decltype(shorter_tail)> ready(shorter_tail);
  double now = 0.0;
  double length = 0.0;
  auto next = tasks.begin();
  while (next != tasks.end() || !ready.empty()) {
    if (ready.empty()) now = std::max(now, next->head);
    for (; next != tasks.end() && next->head <= now; ++next) ready.push(*next);
    Window task = ready.top();
    ready.pop();
    const double end = now + task.duration;
    if (next != tasks.end() && next->head < end) {
      task.duration = end - next->head;
      now = next->head;
      ready.push(task);
      continue;
    }
    now = end;
    length = std::max(length, end + task.tail);
  }
  return length;
}

class Search {
 public:
  Search(const TaskGraph& graph, std::int64_t max_placements)
      : graph_(graph), scheduler_(graph), max_placements_(max_placements), least_(least_length(graph)) {
    for (std::size_t id = 0; id < graph.size(); ++id) unit_ += graph[static_cast<int>(id)].duration;
    unit_ /= static_cast<double>(std::max<std::size_t>(graph.size(), 1));
  }

  TaskOrder run() {
    std::vector<double> priorities = longest_chains(graph_, Direction::kForward);
    for (double& priority : priorities) priority = -priority;
    improve(std::move(priorities));
    while (!is_done()) improve(disturbed());
    return std::move(best_);
  }

 private:
  bool is_done() const {
    return best_.length <= least_ * (1 + kTolerance) || scheduler_.num_placements() >= max_placements_;
  }

  void improve(std::vector<double> priorities) {
    double length = std::numeric_limits<double>::infinity();
    while (true) {
      TaskOrder order = scheduler_.lay_out(priorities, Direction::kForward);
      const bool shorter = order.length < length * (1 - kTolerance);
      length = order.length;
      for (std::size_t id = 0; id < graph_.size(); ++id) {
        priorities[id] = -(order.starts[id] + graph_[static_cast<int>(id)].duration);
      }
      // One as short as the best takes its place, too: it may be the way to a shorter one.
      if (best_.sequence.empty() || length <= best_.length * (1 + kTolerance)) best_ = std::move(order);
      if (!shorter || is_done()) return;
      const TaskOrder late = scheduler_.lay_out(priorities, Direction::kBackward);
      for (std::size_t id = 0; id < graph_.size(); ++id) {
        priorities[id] = late.length - late.starts[id] - graph_[static_cast<int>(id)].duration;
      }
    }
  }

  /// The starts of the best order, with those of some or all free tasks moved, or all of one rank by the same.
  std::vector<double> disturbed() {
    constexpr double kReaches[] = {0.4, 1.5, 4.0, 10.0, 25.0};  // in durations of a task
    constexpr double kShares[] = {0.0, 0.05, 0.2, 0.6, 1.0};
    const auto either_way = [&] { return (2.0 * uniform() - 1.0) * kReaches[random_() % std::size(kReaches)] * unit_; };
    const double share = kShares[random_() % std::size(kShares)];
    const int rank = static_cast<int>(random_() % static_cast<unsigned>(2 * graph_.num_ranks()));  // or none
    const double shift = either_way();
    std::vector<double> priorities = best_.starts;
    for (std::size_t id = 0; id < priorities.size(); ++id) {
      const TaskGraph::Task& task = graph_[static_cast<int>(id)];
      if (!task.is_free) continue;
      if (task.rank == rank) priorities[id] += shift;
      if (uniform() < share) priorities[id] += either_way();
    }
    return priorities;
  }

  double uniform() {
    return static_cast<double>(random_() - std::minstd_rand::min()) /
           static_cast<double>(std::minstd_rand::max() - std::minstd_rand::min());
  }

  const TaskGraph& graph_;
  ListScheduler scheduler_;
  std::int64_t max_placements_;
  double least_;
  double unit_ = 0.0;  ///< a task's mean duration
  std::minstd_rand random_{1};
  TaskOrder best_;
};

}  // namespace

int TaskGraph::add(int rank, double duration, bool is_free) {
  PPCTL_CHECK(rank >= 0 && rank < num_ranks_ && duration >= 0.0, "rank {}, duration {}", rank, duration);
  tasks_.push_back({.rank = rank, .duration = duration, .is_free = is_free, .before = {}, .after = {}});
  return static_cast<int>(tasks_.size()) - 1;
}

void TaskGraph::wait_for(int task, int other, double delay) {
  tasks_[static_cast<std::size_t>(task)].before.push_back({other, delay});
  tasks_[static_cast<std::size_t>(other)].after.push_back({task, delay});
}

double least_length(const TaskGraph& graph) {
  const std::vector<double> tails = longest_chains(graph, Direction::kForward);
  const std::vector<double> heads = longest_chains(graph, Direction::kBackward);
  std::vector<std::vector<Window>> ranks(static_cast<std::size_t>(graph.num_ranks()));
  double longest = 0.0;
  for (std::size_t id = 0; id < graph.size(); ++id) {
    const TaskGraph::Task& task = graph[static_cast<int>(id)];
    longest = std::max(longest, tails[id]);
    ranks[static_cast<std::size_t>(task.rank)].push_back(
        {.head = heads[id] - task.duration, .duration = task.duration, .tail = tails[id] - task.duration});
  }
  for (std::vector<Window>& rank : ranks) longest = std::max(longest, preemptive_length(std::move(rank)));
  return longest;
}

TaskOrder shortest_order(const TaskGraph& graph, std::int64_t max_placements) {
  return Search(graph, max_placements).run();
}

}  // namespace ppctl
