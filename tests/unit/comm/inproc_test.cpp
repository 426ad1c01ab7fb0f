#include "comm/inproc.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "base/error.hpp"
#include "unit/comm/bytes.hpp"

namespace ppctl {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Deadline soon() { return Deadline::after_seconds(20); }

/// The text of the Error that `call` throws.
template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Inproc, DeliversMessagesOfOneTagInOrder) {
  run_inproc(2, [](Communicator& comm) {
    for (std::int32_t i = 0; i < 100; ++i) {
      if (comm.transport().rank() == 0) {
        comm.transport().start(send_to(1, 5, i))->wait(soon(), "send");
      } else {
        std::int32_t got = -1;
        comm.transport().start(receive_from(0, 5, got))->wait(soon(), "receive");
        EXPECT_EQ(got, i);
      }
    }
  });
}

TEST(Inproc, MatchesByTagWhateverTheOrderOfArrival) {
  run_inproc(2, [](Communicator& comm) {
    Transport& transport = comm.transport();
    if (transport.rank() == 0) {
      for (std::int32_t tag = 0; tag < 50; ++tag) transport.start(send_to(1, tag, tag))->wait(soon(), "send");
    } else {
      for (std::int32_t tag = 49; tag >= 0; --tag) {
        std::int32_t got = -1;
        transport.start(receive_from(0, tag, got))->wait(soon(), "receive");
        EXPECT_EQ(got, tag);
      }
    }
  });
}

TEST(Inproc, MatchesReceivesThatWerePostedAheadInTheirOrder) {
  run_inproc(2, [](Communicator& comm) {
    Transport& transport = comm.transport();
    if (transport.rank() == 0) {
      std::int32_t a = 0, b = 0;
      RequestPtr first = transport.start(receive_from(1, 7, a));
      RequestPtr second = transport.start(receive_from(1, 7, b));
      second->wait(soon(), "second");
      first->wait(soon(), "first");
      EXPECT_EQ(a, 1);
      EXPECT_EQ(b, 2);
    } else {
      transport.start(send_to(0, 7, std::int32_t{1}));
      transport.start(send_to(0, 7, std::int32_t{2}));
    }
  });
}

TEST(Inproc, GathersWhatIsSentAndScattersWhatIsReceived) {
  run_inproc(2, [](Communicator& comm) {
    Transport& transport = comm.transport();
    std::string a = "pipe", b = "", c = "line";
    if (transport.rank() == 0) {
      transport.start(
          {.kind = P2POp::Kind::kSend, .peer = 1, .tag = 1, .send = {bytes_of(a), bytes_of(b), bytes_of(c)}});
    } else {
      std::string x(3, '.'), y(9, '.');
      std::size_t received = 0;
      transport
          .start({.kind = P2POp::Kind::kRecv,
                  .peer = 0,
                  .tag = 1,
                  .recv = {room_of(x), room_of(y)},
                  .received = &received})
          ->wait(soon(), "receive");
      EXPECT_EQ(x, "pip");
      EXPECT_EQ(y, "eline....");
      EXPECT_EQ(received, 8u);
    }
  });
}

TEST(Inproc, CompletesADuplexBatchWhenAllOfItIsComplete) {
  run_inproc(2, [](Communicator& comm) {
    Transport& transport = comm.transport();
    const int peer = 1 - transport.rank();
    std::int32_t got1 = 0, got2 = 0;
    const std::int32_t mine = transport.rank() + 10;
    std::vector<P2POp> ops;
    ops.push_back(receive_from(peer, 2, got2));
    ops.push_back(send_to(peer, 1, mine));
    ops.push_back(receive_from(peer, 1, got1));
    ops.push_back(send_to(peer, 2, mine));
    RequestPtr batch = transport.start_batch(std::move(ops));
    batch->wait(soon(), "duplex");
    EXPECT_TRUE(batch->test());
    EXPECT_EQ(got1, peer + 10);
    EXPECT_EQ(got2, peer + 10);
  });
}

TEST(Inproc, SendsToItself) {
  run_inproc(1, [](Communicator& comm) {
    std::int32_t got = 0;
    comm.transport().start(send_to(0, 3, std::int32_t{42}));
    RequestPtr request = comm.transport().start(receive_from(0, 3, got));
    EXPECT_TRUE(request->test());
    EXPECT_EQ(got, 42);
  });
}

TEST(Inproc, CarriesRandomTrafficOfManyThreads) {
  constexpr int kRanks = 5, kMessages = 200;
  run_inproc(kRanks, [](Communicator& comm) {
    Transport& transport = comm.transport();
    const auto body_of = [](int from, int to, int lane, int i) {
      std::mt19937 random(((from * kRanks + to) * 2 + lane) * kMessages + i);
      return std::string(random() % 5000, static_cast<char>('a' + random() % 26));
    };
    // Two threads of each rank, with tags of their own, as two overlapped passes have.
    const auto run_lane = [&](int lane) {
      for (int i = 0; i < kMessages; ++i) {
        std::vector<P2POp> ops;
        std::vector<std::string> bodies(kRanks), got(kRanks, std::string(5000, '.'));
        std::vector<std::size_t> sizes(kRanks);
        for (int peer = 0; peer < kRanks; ++peer) {
          bodies[peer] = body_of(transport.rank(), peer, lane, i);
          ops.push_back({.kind = P2POp::Kind::kSend, .peer = peer, .tag = lane, .send = {bytes_of(bodies[peer])}});
          ops.push_back({.kind = P2POp::Kind::kRecv,
                         .peer = peer,
                         .tag = lane,
                         .recv = {room_of(got[peer])},
                         .received = &sizes[peer]});
        }
        transport.start_batch(std::move(ops))->wait(soon(), "traffic");
        for (int peer = 0; peer < kRanks; ++peer) {
          got[peer].resize(sizes[peer]);
          EXPECT_EQ(got[peer], body_of(peer, transport.rank(), lane, i));
        }
      }
    };
    std::thread other(run_lane, 1);
    run_lane(0);
    other.join();
  });
}

TEST(Inproc, NamesRankPeerTagContextAndStepsWhenADeadlinePasses) {
  run_inproc(2, [](Communicator& comm) {
    Transport& transport = comm.transport();
    transport.set_status(transport.rank() == 0 ? "step 12, 1B2" : "step 11, 3F4");
    std::unique_ptr<Group> group = comm.group(std::vector<int>{0, 1}, "all");
    group->barrier(soon());
    if (transport.rank() == 0) {
      std::int32_t got = 0;
      RequestPtr request = transport.start(receive_from(1, 17, got));
      EXPECT_EQ(error_of([&] { request->wait(Deadline::after_seconds(0.2), "the gradient of stage 1"); }),
                "rank 0 waited 0.2 s for a message from rank 1 with tag 17: the gradient of stage 1; "
                "rank 0 is in step 12, 1B2, rank 1 is in step 11, 3F4");
    }
    group->barrier(soon());
  });
}

TEST(Inproc, SaysThatAPeerHasEnded) {
  EXPECT_EQ(
      error_of([] {
        run_inproc(2, [](Communicator& comm) {
          if (comm.transport().rank() == 1) return;
          std::int32_t got = 0;
          comm.transport().set_status("step 0, 0F0");
          comm.transport().start(receive_from(1, 1, got))->wait(Deadline::after_seconds(0.3), "recv");
        });
      }),
      "rank 0 waited 0.3 s for a message from rank 1 with tag 1: recv; rank 0 is in step 0, 0F0, rank 1 has ended");
}

TEST(Inproc, RefusesAMessageThatIsLongerThanItsReceive) {
  run_inproc(1, [](Communicator& comm) {
    std::int32_t got = 0;
    comm.transport().start(send_to(0, 3, std::int64_t{42}));
    RequestPtr request = comm.transport().start(receive_from(0, 3, got));
    EXPECT_EQ(error_of([&] { request->wait(soon(), "receive"); }),
              "rank 0 got 8 bytes from rank 0 with tag 3, but the receive has room for 4");
  });
}

TEST(Inproc, RefusesMemoryOfAGpu) {
  run_inproc(1, [](Communicator& comm) {
    std::int32_t got = 0;
    P2POp op = receive_from(0, 3, got);
    op.recv[0].device = DeviceKind::kCuda;
    EXPECT_EQ(error_of([&] { comm.transport().start(op); }),
              "rank 0: this transport carries memory of the CPU only; a message for rank 0 with tag 3 is on a GPU");
  });
}

TEST(Inproc, EndsTheWaitsOfAllWhenOneRankThrowsAndThrowsTheFirstFault) {
  std::atomic<int> failed_waits{0};
  const Nanoseconds begin = monotonic_now();
  EXPECT_EQ(error_of([&] {
              run_inproc(4, [&](Communicator& comm) {
                if (comm.transport().rank() == 2) throw Error("the data ended");
                std::int32_t got = 0;
                const std::string text =
                    error_of([&] { comm.transport().start(receive_from(2, 1, got))->wait(soon(), "activations"); });
                EXPECT_EQ(text, fmt::format("rank 2 failed: the data ended (rank {} was waiting: activations)",
                                            comm.transport().rank()));
                EXPECT_EQ(comm.transport().failure(), "rank 2 failed: the data ended");
                ++failed_waits;
              });
            }),
            "the data ended");
  EXPECT_EQ(failed_waits, 3);
  EXPECT_LT(monotonic_now() - begin, 5'000'000'000);
}

TEST(Inproc, TakesMessagesThatCameBeforeTheFailure) {
  run_inproc(2, [](Communicator& comm) {
    if (comm.transport().rank() == 1) {
      comm.transport().start(send_to(0, 1, std::int32_t{5}));
      comm.transport().abort("done for");
      return;
    }
    while (!comm.transport().failure()) std::this_thread::yield();
    std::int32_t got = 0;
    comm.transport().start(receive_from(1, 1, got))->wait(soon(), "receive");
    EXPECT_EQ(got, 5);
  });
}

TEST(Inproc, NamesTheRankThatFailedOnce) {
  run_inproc(2, [](Communicator& comm) {
    if (comm.transport().rank() == 1) {
      comm.transport().abort("rank 1, step 3, 1F0: a damaged image");
      return;
    }
    std::optional<std::string> failure;
    while (!failure) failure = comm.transport().failure();
    EXPECT_EQ(*failure, "rank 1 failed: step 3, 1F0: a damaged image");
  });
}

}  // namespace
}  // namespace ppctl
