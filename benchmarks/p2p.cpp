// What the transport costs: ping-pong between ranks 0 and 1 while the other ranks wait, and an all-reduce of all ranks.
//
//     mpirun --oversubscribe -np 2 bench_p2p            # and with PPCTL_TRANSPORT=mpi, with -np 4, with --bind-to none
//
// Prints a table: bytes, microseconds one way (half a round trip), GB/s, microseconds of an all-reduce of float32.
// Medians.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/clock.hpp"
#include "comm/mpi/mpi.hpp"

namespace ppctl {
namespace {

Deadline soon() { return Deadline::after_seconds(60); }

/// Median microseconds of a call, after some that warm up. All ranks start each call together.
template <class Call>
double median_us(Group& group, int repeats, Call call) {
  std::vector<double> times;
  for (int i = -2; i < repeats; ++i) {
    group.barrier(soon());
    const Nanoseconds begin = monotonic_now();
    call();
    if (i >= 0) times.push_back(static_cast<double>(monotonic_now() - begin) * 1e-3);
  }
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[static_cast<std::size_t>(repeats / 2)];
}

void ping_pong(Transport& transport, std::vector<std::byte>& payload, int turns) {
  const int rank = transport.rank();
  if (rank > 1) return;
  const auto send = [&] {
    transport
        .start({.kind = P2POp::Kind::kSend, .peer = 1 - rank, .tag = 1, .send = {{payload.data(), payload.size()}}})
        ->wait(soon(), "send");
  };
  const auto receive = [&] {
    transport
        .start({.kind = P2POp::Kind::kRecv, .peer = 1 - rank, .tag = 1, .recv = {{payload.data(), payload.size()}}})
        ->wait(soon(), "receive");
  };
  for (int turn = 0; turn < turns; ++turn) {
    if (rank == 0) send();
    receive();
    if (rank == 1) send();
  }
}

void run() {
  const auto comm = connect_mpi(MpiOptions());
  Transport& transport = comm->transport();
  std::vector<int> ranks;
  for (int rank = 0; rank < transport.size(); ++rank) ranks.push_back(rank);
  const auto group = comm->group(ranks, "all");
  if (transport.rank() == 0)
    fmt::print("{} ranks\n{:>10} {:>12} {:>8} {:>14}\n", ranks.size(), "bytes", "one way us", "GB/s", "all-reduce us");
  for (std::size_t bytes = 1 << 10; bytes <= std::size_t{4} << 20; bytes *= 4) {
    const int turns = bytes <= 256 << 10 ? 20 : 4;
    std::vector<std::byte> payload(bytes);
    const double one_way = median_us(*group, 30, [&] { ping_pong(transport, payload, turns); }) / (2 * turns);
    const double reduce = median_us(*group, 30, [&] {
      group->all_reduce({payload.data(), payload.size()}, ElementType::kFloat32)->wait(soon(), "all-reduce");
    });
    if (transport.rank() == 0) {
      fmt::print("{:>10} {:>12.1f} {:>8.2f} {:>14.1f}\n", bytes, one_way, static_cast<double>(bytes) / one_way * 1e-3,
                 reduce);
    }
  }
}

}  // namespace
}  // namespace ppctl

int main() {
  try {
    ppctl::run();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
