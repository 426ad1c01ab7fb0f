// What bringing tokens to experts and back costs beside the transport's own all-to-all: one dispatch and one combine of
// GroupExpertExchange (with the message of the counts, the allocation of what comes, and rows put in place by expert)
// against two all_to_all of the same bytes between the same ranks, sizes known. Counts are uneven. Both take the memory
// of what comes from the allocator each time, which gives them the same.
//
//     mpirun --oversubscribe -np 2 bench_expert_exchange          # and with -np 4, with PPCTL_TRANSPORT=mpi
//
// Prints a table: rows a rank, bytes a rank and direction, microseconds of both (medians of alternating turns), and the
// median of the turns' ratios.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>

#include "base/clock.hpp"
#include "comm/mpi/mpi.hpp"
#include "heap.hpp"
#include "shard/group_expert_exchange.hpp"

namespace ppctl {
namespace {

constexpr std::int64_t kWidth = 1024;
constexpr std::int64_t kExpertsEach = 4;
constexpr int kWarmUpTurns = 50;

Deadline soon() { return Deadline::after_seconds(60); }

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Microseconds from a common start to the end of `call` on the slowest rank.
template <class Call>
double timed(Group& group, Call call) {
  group.barrier(soon());
  const Nanoseconds begin = monotonic_now();
  call();
  group.barrier(soon());
  return static_cast<double>(monotonic_now() - begin) * 1e-3;
}

/// Rows of rank `from` for each expert: from half of an even share to one and a half.
std::vector<std::int64_t> counts_of(int from, std::int64_t rows, std::int64_t num_experts) {
  std::vector<std::int64_t> counts;
  for (std::int64_t expert = 0; expert < num_experts; ++expert) {
    counts.push_back(rows / num_experts * (2 + (expert + from) % 3) / 3);
  }
  return counts;
}

std::vector<std::size_t> bytes_by_rank(const std::vector<std::int64_t>& counts) {
  std::vector<std::size_t> bytes;
  for (std::size_t first = 0; first < counts.size(); first += kExpertsEach) {
    const auto begin = counts.begin() + static_cast<std::ptrdiff_t>(first);
    bytes.push_back(static_cast<std::size_t>(std::accumulate(begin, begin + kExpertsEach, std::int64_t{0})) * kWidth *
                    sizeof(float));
  }
  return bytes;
}

void measure(Group& group, ExpertExchange& exchange, std::int64_t rows) {
  const std::int64_t num_experts = group.size() * kExpertsEach;
  const std::vector<std::int64_t> counts = counts_of(group.rank(), rows, num_experts);
  const at::Tensor tokens = at::ones({std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), kWidth});
  const std::vector<std::size_t> sent = bytes_by_rank(counts);
  std::vector<std::size_t> received;
  for (int from = 0; from < group.size(); ++from) {
    received.push_back(bytes_by_rank(counts_of(from, rows, num_experts))[static_cast<std::size_t>(group.rank())]);
  }
  const auto rows_there = static_cast<std::int64_t>(std::accumulate(received.begin(), received.end(), std::size_t{0}) /
                                                    (kWidth * sizeof(float)));
  const auto bytes_of = [](const at::Tensor& tensor) {
    return MutableBytes{static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
  };
  const auto raw = [&] {
    const at::Tensor there = at::empty({rows_there, kWidth});
    const at::Tensor back = at::empty_like(tokens);
    const MutableBytes from = bytes_of(tokens);
    const MutableBytes held = bytes_of(there);
    group.all_to_all({from.data, from.size}, sent, held, received)->wait(soon(), "all-to-all");
    group.all_to_all({held.data, held.size}, received, bytes_of(back), sent)->wait(soon(), "all-to-all");
  };
  const auto experts = [&] {
    const ExpertRows held =
        exchange.start({ExpertTransfer::Operation::kDispatch, false, false, tokens, {counts, {}}})->wait();
    exchange.start({ExpertTransfer::Operation::kCombine, false, false, held.rows, held.counts})->wait();
  };
  std::vector<double> raw_us;
  std::vector<double> expert_us;
  std::vector<double> ratios;
  const int turns = tokens.nbytes() < (std::size_t{2} << 20) ? 1001 : 101;
  for (int turn = -kWarmUpTurns; turn < turns; ++turn) {
    const double a = timed(group, raw);
    const double b = timed(group, experts);
    if (turn < 0) continue;
    raw_us.push_back(a);
    expert_us.push_back(b);
    ratios.push_back(b / a);
  }
  if (group.rank() != 0) return;
  fmt::print("{:>8} {:>10} {:>14.1f} {:>22.1f} {:>8.2f}\n", tokens.size(0), tokens.nbytes(), median(raw_us),
             median(expert_us), median(ratios));
}

void run() {
  const auto comm = connect_mpi(MpiOptions());
  std::vector<int> ranks(static_cast<std::size_t>(comm->transport().size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto group = comm->group(ranks, "all");
  GroupExpertExchange exchange(*comm, ranks, 60);
  if (group->rank() == 0) {
    fmt::print("{} ranks, rows of {} float32\n{:>8} {:>10} {:>14} {:>22} {:>8}\n", ranks.size(), kWidth, "rows",
               "bytes", "all-to-all us", "dispatch + combine us", "ratio");
  }
  for (const std::int64_t rows : {24, 96, 384, 1536, 6144}) measure(*group, exchange, rows);
}

}  // namespace
}  // namespace ppctl

int main(int /*argc*/, char** argv) {
  try {
    ppctl::run_on_tuned_heap(argv);
    ppctl::run();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
