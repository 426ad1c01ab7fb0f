#include "comm/emulated_link.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "base/error.hpp"
#include "comm/inproc.hpp"
#include "unit/comm/bytes.hpp"

namespace ppctl {
namespace {

Deadline soon() { return Deadline::after_seconds(20); }

double seconds_since(Nanoseconds begin) { return static_cast<double>(monotonic_now() - begin) * 1e-9; }

/// Runs `body` on two ranks that are connected by the link.
void run_linked(LinkModel link, const std::function<void(Communicator&)>& body) {
  run_inproc(2, [&](Communicator& below) { body(*emulate_links(below, link)); });
}

void meet(Communicator& comm) { comm.group(std::vector<int>{0, 1}, "meet")->barrier(soon()); }

TEST(EmulatedLink, DeliversNoEarlierThanLatencyAndBandwidthAllow) {
  // 1 MB over 0.4 Gb/s takes 20 ms.
  run_linked({.latency_us = 10'000, .bandwidth_gbps = 0.4}, [](Communicator& comm) {
    std::string text(1'000'000, 'a');
    meet(comm);
    const Nanoseconds begin = monotonic_now();
    if (comm.transport().rank() == 0) {
      comm.transport().start({.kind = P2POp::Kind::kSend, .peer = 1, .tag = 1, .send = {bytes_of(text)}});
    } else {
      std::string got(1'000'000, '.');
      std::size_t size = 0;
      comm.transport()
          .start({.kind = P2POp::Kind::kRecv, .peer = 0, .tag = 1, .recv = {room_of(got)}, .received = &size})
          ->wait(soon(), "receive");
      // The sender may have left the barrier one latency earlier.
      EXPECT_GE(seconds_since(begin), 0.02 - 0.001);
      EXPECT_EQ(got, text);
      EXPECT_EQ(size, text.size());
    }
  });
}

TEST(EmulatedLink, CarriesMessagesOfAPairOneAfterTheOther) {
  run_linked({.latency_us = 0, .bandwidth_gbps = 0.08}, [](Communicator& comm) {  // 10 ms for 100 kB
    if (comm.transport().rank() == 0) {
      const std::string text(100'000, 'a');
      for (int i = 0; i < 3; ++i) {
        comm.transport().start({.kind = P2POp::Kind::kSend, .peer = 1, .tag = i, .send = {bytes_of(text)}});
      }
    } else {
      const Nanoseconds begin = monotonic_now();
      std::string got(100'000, '.');
      comm.transport()
          .start({.kind = P2POp::Kind::kRecv, .peer = 0, .tag = 2, .recv = {room_of(got)}})
          ->wait(soon(), "the last");
      EXPECT_GE(seconds_since(begin), 0.025);
      for (int i = 0; i < 2; ++i) {
        EXPECT_TRUE(
            comm.transport().start({.kind = P2POp::Kind::kRecv, .peer = 0, .tag = i, .recv = {room_of(got)}})->test());
      }
    }
  });
}

TEST(EmulatedLink, BringsMessagesWhileTheReceiverComputes) {
  run_linked({.latency_us = 600'000}, [](Communicator& comm) {
    if (comm.transport().rank() == 0) {
      const Nanoseconds begin = monotonic_now();
      comm.transport().start(send_to(1, 1, 42));
      EXPECT_LT(seconds_since(begin), 0.4);  // the sender goes on
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    int got = 0;
    const Nanoseconds begin = monotonic_now();
    comm.transport().start(receive_from(0, 1, got))->wait(soon(), "receive");
    EXPECT_LT(seconds_since(begin), 0.4);
    EXPECT_EQ(got, 42);
  });
}

TEST(EmulatedLink, HasItsOwnSpeedForEachOrderedPair) {
  run_inproc(2, [](Communicator& below) {
    const auto comm =
        emulate_links(below, [](int from, int) { return LinkModel{.latency_us = from == 0 ? 200'000.0 : 0}; });
    const int rank = comm->transport().rank();
    below.group(std::vector<int>{0, 1}, "meet")->barrier(soon());
    const Nanoseconds begin = monotonic_now();
    int got = 0;
    comm->transport().start(send_to(1 - rank, 1, rank));
    comm->transport().start(receive_from(1 - rank, 1, got))->wait(soon(), "receive");
    EXPECT_EQ(got, 1 - rank);
    // Rank 0 gets its message over the link without latency; it may have left the barrier some time before rank 1.
    EXPECT_EQ(seconds_since(begin) > 0.15, rank == 1);
  });
}

TEST(EmulatedLink, WithRendezvousBringsNothingUntilTheReceiveHasBeenPostedForAsLong) {
  for (const bool rendezvous : {false, true}) {
    run_linked({.latency_us = 80'000, .rendezvous = rendezvous}, [&](Communicator& comm) {
      if (comm.transport().rank() == 0) {
        comm.transport().start(send_to(1, 1, 42));
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(150));  // The message has crossed, if it was let go.
      int got = 0;
      const Nanoseconds begin = monotonic_now();
      comm.transport().start(receive_from(0, 1, got))->wait(soon(), "receive");
      EXPECT_EQ(seconds_since(begin) >= 0.08, rendezvous);
      EXPECT_EQ(got, 42);
    });
  }
}

TEST(EmulatedLink, CarriesARandomMixOfBatchesAndCollectivesExactly) {
  run_inproc(3, [](Communicator& below) {
    const auto comm = emulate_links(below, [](int from, int to) {
      return LinkModel{.latency_us = 50.0 * (from + 1), .bandwidth_gbps = 1.0 + to, .rendezvous = from == 0};
    });
    const int rank = comm->transport().rank();
    const auto group = comm->group(std::vector<int>{0, 1, 2}, "all");
    for (int round = 0; round < 30; ++round) {
      const int next = (rank + 1) % 3;
      const int previous = (rank + 2) % 3;
      int from_next = -1;
      int from_previous = -1;
      const int mine = 100 * round + rank;
      std::vector<P2POp> ops;
      ops.push_back(receive_from(next, 1, from_next));
      ops.push_back(send_to(previous, 1, mine));
      ops.push_back(receive_from(previous, 2, from_previous));
      ops.push_back(send_to(next, 2, mine));
      const RequestPtr batch = comm->transport().start_batch(std::move(ops));
      double sum = mine;
      const RequestPtr reduced =
          group->all_reduce({reinterpret_cast<std::byte*>(&sum), sizeof sum}, ElementType::kFloat64);
      batch->wait(soon(), "batch");
      reduced->wait(soon(), "sum");
      EXPECT_EQ(from_next, 100 * round + next);
      EXPECT_EQ(from_previous, 100 * round + previous);
      EXPECT_EQ(sum, 300.0 * round + 3);
    }
  });
}

TEST(EmulatedLink, LeavesCollectivesExact) {
  run_inproc(4, [](Communicator& below) {
    const auto comm = emulate_links(below, LinkModel{.latency_us = 100, .bandwidth_gbps = 10});
    const auto group = comm->group(std::vector<int>{0, 1, 2, 3}, "all");
    std::vector<float> values(20'000);
    std::iota(values.begin(), values.end(), static_cast<float>(group->rank()));
    group->all_reduce(room_of(values), ElementType::kFloat32)->wait(soon(), "");
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], 4.0F * static_cast<float>(i) + 6);
  });
}

TEST(EmulatedLink, SaysWhenTheLinkIsTooSlowForTheDeadline) {
  run_linked({.latency_us = 5e6}, [](Communicator& comm) {
    if (comm.transport().rank() == 0) {
      comm.transport().start(send_to(1, 1, 42));
      return;
    }
    int got = 0;
    RequestPtr request = comm.transport().start(receive_from(0, 1, got));
    try {
      request->wait(Deadline::after_seconds(0.1), "the activations");
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).rfind("rank 1: the emulated link from rank 0 takes 4.", 0), 0u)
          << error.what();
    }
  });
}

}  // namespace
}  // namespace ppctl
