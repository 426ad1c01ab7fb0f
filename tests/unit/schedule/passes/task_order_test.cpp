#include "schedule/passes/task_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace ppctl {
namespace {

double end_of(const TaskGraph& graph, const TaskOrder& order, int task) {
  return order.starts[static_cast<std::size_t>(task)] + graph[task].duration;
}

/// That every task waits for what it must, that no rank does two at once, and that the length is that of its last.
void expect_possible(const TaskGraph& graph, const TaskOrder& order) {
  ASSERT_EQ(order.sequence.size(), graph.size());
  double length = 0;
  for (int task = 0; task < static_cast<int>(graph.size()); ++task) {
    length = std::max(length, end_of(graph, order, task));
    for (const auto [before, delay] : graph[task].before) {
      EXPECT_GE(order.starts[static_cast<std::size_t>(task)], end_of(graph, order, before) + delay - 1e-9);
    }
    for (int other = 0; other < task; ++other) {
      if (graph[task].rank != graph[other].rank) continue;
      EXPECT_TRUE(order.starts[static_cast<std::size_t>(task)] >= end_of(graph, order, other) - 1e-6 ||
                  order.starts[static_cast<std::size_t>(other)] >= end_of(graph, order, task) - 1e-6);
    }
  }
  EXPECT_DOUBLE_EQ(order.length, length);
}

/// Two ranks or three, chains of one rank's tasks and waits between ranks.
TaskGraph random_graph(std::mt19937& random, int num_tasks) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  TaskGraph graph(2 + below(2));
  std::vector<int> last(static_cast<std::size_t>(graph.num_ranks()), -1);
  for (int i = 0; i < num_tasks; ++i) {
    const int rank = below(graph.num_ranks());
    const bool is_free = below(2) == 0;
    const int task = graph.add(rank, 1 + below(4), is_free);
    int& previous = last[static_cast<std::size_t>(rank)];
    if (!is_free && previous >= 0) graph.wait_for(task, previous);
    if (!is_free) previous = task;
    if (i > 0 && below(3) > 0) graph.wait_for(task, below(i), below(2));
  }
  return graph;
}

/// The shortest of all orders, by trying every one: each task in turn as early as those before it allow.
double shortest_of_all(const TaskGraph& graph, std::vector<double>& ends, std::vector<double> free_at) {
  double shortest = std::numeric_limits<double>::infinity();
  bool is_complete = true;
  for (int task = 0; task < static_cast<int>(graph.size()); ++task) {
    if (ends[static_cast<std::size_t>(task)] >= 0) continue;
    is_complete = false;
    double start = free_at[static_cast<std::size_t>(graph[task].rank)];
    bool may_start = true;
    for (const auto [before, delay] : graph[task].before) {
      may_start = may_start && ends[static_cast<std::size_t>(before)] >= 0;
      start = std::max(start, ends[static_cast<std::size_t>(before)] + delay);
    }
    if (!may_start) continue;
    std::vector<double> next = free_at;
    next[static_cast<std::size_t>(graph[task].rank)] = ends[static_cast<std::size_t>(task)] =
        start + graph[task].duration;
    shortest = std::min(shortest, shortest_of_all(graph, ends, std::move(next)));
    ends[static_cast<std::size_t>(task)] = -1;
  }
  return is_complete ? std::ranges::max(ends) : shortest;
}

TEST(TaskOrder, IsTheShortestOfAllOrdersOfAFewTasksAndNoneIsBelowTheLeastLength) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    const TaskGraph graph = random_graph(random, 7);
    const TaskOrder order = shortest_order(graph, 20'000);
    expect_possible(graph, order);
    std::vector<double> ends(graph.size(), -1);
    const double shortest =
        shortest_of_all(graph, ends, std::vector<double>(static_cast<std::size_t>(graph.num_ranks()), 0.0));
    EXPECT_DOUBLE_EQ(order.length, shortest) << "round " << round;
    EXPECT_LE(least_length(graph), shortest + 1e-9) << "round " << round;
  }
}

TEST(TaskOrder, OfManyTasksIsPossibleAndTheSameEachTime) {
  std::mt19937 random(11);
  const TaskGraph graph = random_graph(random, 300);
  const TaskOrder order = shortest_order(graph, 30'000);
  expect_possible(graph, order);
  const TaskOrder again = shortest_order(graph, 30'000);
  EXPECT_EQ(order.sequence, again.sequence);
  EXPECT_EQ(order.starts, again.starts);
}

TEST(TaskOrder, TasksThatTakeNoTimeKeepTheOrderInWhichTheyWait) {
  TaskGraph graph(1);
  const int last = graph.add(0, 0.0);
  const int first = graph.add(0, 0.0);
  graph.wait_for(last, first);
  EXPECT_EQ(shortest_order(graph, 100).sequence, (std::vector<int>{first, last}));
}

TEST(TaskOrder, TheLeastLengthCountsWhatARankCannotDoBeforeItsOtherTasks) {
  // Rank 0 has 2 to do at once and 3 after an answer that takes 5: it must idle for 3.
  TaskGraph graph(2);
  const int ask = graph.add(0, 1.0);
  graph.add(0, 1.0);
  const int answer = graph.add(1, 4.0);
  graph.wait_for(answer, ask);
  for (int i = 0; i < 3; ++i) graph.wait_for(graph.add(0, 1.0), answer);
  EXPECT_DOUBLE_EQ(least_length(graph), 8.0);
  EXPECT_DOUBLE_EQ(shortest_order(graph, 1000).length, 8.0);
}

}  // namespace
}  // namespace ppctl
