#include "shard/group_expert_exchange.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <thread>

#include "base/error.hpp"
#include "comm/inproc.hpp"

namespace ppctl {
namespace {

using Operation = ExpertTransfer::Operation;
using Counts = std::vector<std::int64_t>;

constexpr std::int64_t kWidth = 3;
constexpr double kTimeout = 30;

/// Rows that `from` has for each expert in round `round`: some have none, of some rounds a whole rank.
Counts routed_counts(int from, int round, int num_experts) {
  std::mt19937 random(static_cast<unsigned>(1000 * round + from));
  Counts counts(static_cast<std::size_t>(num_experts));
  for (std::int64_t& count : counts) count = static_cast<std::int64_t>(random() % 4) * (round % 3 == from ? 0 : 1);
  return counts;
}

/// Says where a row comes from and where it belongs.
void write_row(const at::Tensor& rows, std::int64_t row, int from, std::int64_t expert, std::int64_t number) {
  rows[row][0] = from;
  rows[row][1] = expert;
  rows[row][2] = number;
}

at::Tensor routed_rows(int from, const Counts& counts) {
  const at::Tensor rows = at::empty({std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), kWidth});
  std::int64_t row = 0;
  for (std::size_t expert = 0; expert < counts.size(); ++expert) {
    for (std::int64_t i = 0; i < counts[expert]; ++i) {
      write_row(rows, row++, from, static_cast<std::int64_t>(expert), i);
    }
  }
  return rows;
}

/// What `rank` holds: by expert, then by the rank that the rows come from.
at::Tensor held_rows(int rank, int round, int num_ranks, int experts_each) {
  std::vector<at::Tensor> parts{at::empty({0, kWidth})};
  for (int expert = rank * experts_each; expert < (rank + 1) * experts_each; ++expert) {
    for (int from = 0; from < num_ranks; ++from) {
      const std::int64_t count = routed_counts(from, round, num_ranks * experts_each)[static_cast<std::size_t>(expert)];
      const at::Tensor part = at::empty({count, kWidth});
      for (std::int64_t i = 0; i < count; ++i) write_row(part, i, from, expert, i);
      parts.push_back(part);
    }
  }
  return at::cat(parts);
}

std::vector<int> all_ranks(Communicator& communicator) {
  std::vector<int> ranks(static_cast<std::size_t>(communicator.transport().size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// There and back again, as forwards do (kDispatch, kCombine), or backwards.
void travel(ExpertExchange& exchange, int rank, int num_ranks, int experts_each, bool forward, bool recomputed) {
  for (int round = 0; round < 9; ++round) {
    const Counts counts = routed_counts(rank, round, num_ranks * experts_each);
    const at::Tensor rows = routed_rows(rank, counts);
    const at::Tensor expected = held_rows(rank, round, num_ranks, experts_each);
    ExpertCounts known{counts, {}};
    if (!forward) {
      for (int from = 0; from < num_ranks; ++from) {
        const Counts theirs = routed_counts(from, round, num_ranks * experts_each);
        known.held.insert(known.held.end(), theirs.begin() + rank * experts_each,
                          theirs.begin() + (rank + 1) * experts_each);
      }
    }
    const auto there = forward ? Operation::kDispatch : Operation::kCombineBackward;
    const auto back = forward ? Operation::kCombine : Operation::kDispatchBackward;
    const ExpertRows held = exchange.start({there, false, recomputed, rows, known})->wait();
    EXPECT_TRUE(at::equal(held.rows, expected)) << "rank " << rank << ", round " << round;
    const ExpertRows routed = exchange.start({back, false, recomputed, held.rows, held.counts})->wait();
    EXPECT_TRUE(at::equal(routed.rows, rows)) << "rank " << rank << ", round " << round;
  }
}

TEST(GroupExpertExchange, BringsRowsToTheirExpertsInOrderAndBack) {
  for (const auto& [num_ranks, experts_each] : {std::pair{1, 3}, std::pair{2, 2}, std::pair{3, 1}, std::pair{4, 3}}) {
    run_inproc(num_ranks, [&, n = num_ranks, each = experts_each](Communicator& communicator) {
      GroupExpertExchange exchange(communicator, all_ranks(communicator), kTimeout);
      travel(exchange, communicator.transport().rank(), n, each, /*forward=*/true, /*recomputed=*/false);
      travel(exchange, communicator.transport().rank(), n, each, /*forward=*/false, /*recomputed=*/false);
    });
  }
}

TEST(GroupExpertExchange, LetsAForwardABackwardAndARecomputedForwardRunAtOnce) {
  run_inproc(3, [](Communicator& communicator) {
    GroupExpertExchange exchange(communicator, all_ranks(communicator), kTimeout);
    const int rank = communicator.transport().rank();
    std::thread forward([&] { travel(exchange, rank, 3, 2, /*forward=*/true, /*recomputed=*/false); });
    travel(exchange, rank, 3, 2, /*forward=*/false, /*recomputed=*/false);
    travel(exchange, rank, 3, 2, /*forward=*/true, /*recomputed=*/true);
    forward.join();
  });
}

TEST(GroupExpertExchange, StartsWithoutWaitingForOthers) {
  run_inproc(2, [](Communicator& communicator) {
    GroupExpertExchange exchange(communicator, all_ranks(communicator), kTimeout);
    const int rank = communicator.transport().rank();
    const Counts counts{2, 1};
    const auto done = communicator.group(all_ranks(communicator), "done");
    // Rank 1 starts only once rank 0's start() has returned.
    if (rank == 1) done->barrier(Deadline::after_seconds(kTimeout));
    const auto pending = exchange.start({Operation::kDispatch, false, false, routed_rows(rank, counts), {counts, {}}});
    if (rank == 0) done->barrier(Deadline::after_seconds(kTimeout));
    const ExpertRows rows = pending->wait();
    EXPECT_EQ(rows.rows.size(0), rank == 0 ? 4 : 2);
    EXPECT_EQ(rows.counts.held, rank == 0 ? (Counts{2, 2}) : (Counts{1, 1}));
  });
}

TEST(GroupExpertExchange, GivesUpOnARankThatDoesNotCome) {
  EXPECT_THROW(
      run_inproc(2,
                 [](Communicator& communicator) {
                   GroupExpertExchange exchange(communicator, all_ranks(communicator), 0.2);
                   if (communicator.transport().rank() == 1) return;
                   const Counts counts{1, 1};
                   exchange.start({Operation::kDispatch, false, false, routed_rows(0, counts), {counts, {}}})->wait();
                 }),
      Error);
}

}  // namespace
}  // namespace ppctl
