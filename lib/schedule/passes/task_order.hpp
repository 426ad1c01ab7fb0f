#pragma once

#include <cstdint>
#include <vector>

namespace ppctl {

/// Tasks that each take one rank for a while, and which of them wait for others: a job shop. Tasks are numbered as they
/// are added; times are in any one unit.
class TaskGraph {
 public:
  explicit TaskGraph(int num_ranks) : num_ranks_(num_ranks) {}

  struct Edge {
    int task = -1;
    double delay = 0.0;
  };
  struct Task {
    int rank = -1;
    double duration = 0.0;
    bool is_free = false;  ///< the search moves it of its own accord, the others only make way
    std::vector<Edge> before;
    std::vector<Edge> after;
  };

  int add(int rank, double duration, bool is_free = false);
  /// `task` begins `delay` after the end of `other` or later. REQUIRES: edges make no circle.
  void wait_for(int task, int other, double delay = 0.0);

  int num_ranks() const { return num_ranks_; }
  std::size_t size() const { return tasks_.size(); }
  const Task& operator[](int task) const { return tasks_[static_cast<std::size_t>(task)]; }

 private:
  int num_ranks_;
  std::vector<Task> tasks_;
};

/// When each task begins, and in what order they were put there: each behind all that it waits for, and tasks of one
/// rank that begin together in the order they run.
struct TaskOrder {
  std::vector<double> starts;
  std::vector<int> sequence;
  double length = 0.0;
};

/// Searches for the shortest order: serial list schedules that fill gaps, each pressed once against its end and then
/// against its beginning as long as that makes it shorter (forward-backward improvement, Li and Willis 1992, of
/// resource-constrained projects), from the best so far with the free tasks' places disturbed at random (an iterated
/// local search). Ends at a length that no order can be below, or after `max_placements` tasks were placed.
/// Deterministic.
TaskOrder shortest_order(const TaskGraph& graph, std::int64_t max_placements);

/// No order is shorter: the longest chain of tasks, or what a rank needs for its tasks between the chains before and
/// behind each, if it could interrupt them (Carlier 1982).
double least_length(const TaskGraph& graph);

}  // namespace ppctl
