#include "comm/group.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <thread>

#include "base/error.hpp"
#include "comm/inproc.hpp"
#include "comm/reduce.hpp"
#include "unit/comm/bytes.hpp"

namespace ppctl {
namespace {

Deadline soon() { return Deadline::after_seconds(20); }

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(size);
  for (int i = 0; i < size; ++i) ranks[i] = i;
  return ranks;
}

std::vector<float> values_of(int rank, std::size_t count) {
  std::mt19937 random(rank);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random) * std::exp(8 * uniform(random));
  return values;
}

/// What a reduction must give: the sum in rank order.
std::vector<float> sum_of(int ranks, std::size_t count) {
  std::vector<float> sum = values_of(0, count);
  for (int rank = 1; rank < ranks; ++rank) {
    const std::vector<float> more = values_of(rank, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += more[i];
  }
  return sum;
}

/// Runs `body` in a group of all ranks, for several numbers of them.
void for_group_sizes(const std::function<void(Group&)>& body) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    run_inproc(ranks, [&](Communicator& comm) { body(*comm.group(all_ranks(ranks), "all")); });
  }
}

TEST(Group, AllReduceSumsInRankOrderToTheLastBit) {
  for_group_sizes([](Group& group) {
    for (const std::size_t count : {0, 1, 7, 1000, 4096, 4097, 100'001}) {
      std::vector<float> values = values_of(group.rank(), count);
      group.all_reduce(room_of(values), ElementType::kFloat32)->wait(soon(), "gradients");
      EXPECT_EQ(values, sum_of(group.size(), count)) << count;
    }
  });
}

TEST(Group, ExchangesPiecesThatLieScattered) {
  for_group_sizes([](Group& group) {
    const int size = group.size();
    // Rank a sends rank b its elements b, b + size, ... of 3 · size, which land behind each other; rank 0 gets nothing.
    std::vector<int> values(static_cast<std::size_t>(3 * size));
    for (int i = 0; i < 3 * size; ++i) values[static_cast<std::size_t>(i)] = 1000 * group.rank() + i;
    std::vector<int> got(static_cast<std::size_t>(3 * size), -1);
    std::vector<std::vector<ConstBytes>> send(static_cast<std::size_t>(size));
    std::vector<std::vector<MutableBytes>> receive(static_cast<std::size_t>(size));
    for (int peer = 0; peer < size; ++peer) {
      for (int k = 0; peer != 0 && k < 3; ++k) {
        const auto* from = reinterpret_cast<const std::byte*>(&values[static_cast<std::size_t>(peer + k * size)]);
        send[static_cast<std::size_t>(peer)].push_back({from, sizeof(int)});
      }
      for (int k = 0; group.rank() != 0 && k < 3; ++k) {
        auto* to = reinterpret_cast<std::byte*>(&got[static_cast<std::size_t>(3 * peer + k)]);
        receive[static_cast<std::size_t>(peer)].push_back({to, sizeof(int)});
      }
    }
    group.exchange_pieces(send, receive)->wait(soon(), "pieces");
    for (int peer = 0; peer < size; ++peer) {
      for (int k = 0; k < 3; ++k) {
        const bool nothing = group.rank() == 0 || peer == group.rank();
        EXPECT_EQ(got[static_cast<std::size_t>(3 * peer + k)], nothing ? -1 : 1000 * peer + group.rank() + k * size);
      }
    }
  });
}

TEST(Group, ReceivesPiecesOfExchangesThatWereSentBeforeInAnyOrder) {
  for_group_sizes([](Group& group) {
    const auto size = static_cast<std::size_t>(group.size());
    const auto value = [&](int from, std::size_t to, int exchange) {
      return 1000 * from + 10 * static_cast<int>(to) + exchange;
    };
    std::vector<std::vector<int>> values(2, std::vector<int>(size));
    std::vector<SentPieces> sent;
    for (int exchange = 0; exchange < 2; ++exchange) {
      std::vector<std::vector<ConstBytes>> send(size);
      for (std::size_t peer = 0; peer < size; ++peer) {
        int& number = values[static_cast<std::size_t>(exchange)][peer];
        number = value(group.rank(), peer, exchange);
        send[peer] = {{reinterpret_cast<const std::byte*>(&number), sizeof number}};
      }
      sent.push_back(group.send_pieces(send));
    }
    for (const int exchange : {1, 0}) {
      std::vector<int> got(size, -1);
      std::vector<std::vector<MutableBytes>> receive(size);
      for (std::size_t peer = 0; peer < size; ++peer) {
        receive[peer] = {{reinterpret_cast<std::byte*>(&got[peer]), sizeof(int)}};
      }
      group.receive_pieces(sent[static_cast<std::size_t>(exchange)], receive)->wait(soon(), "pieces");
      for (std::size_t peer = 0; peer < size; ++peer) {
        const bool own = static_cast<int>(peer) == group.rank();
        EXPECT_EQ(got[peer],
                  own ? -1 : value(static_cast<int>(peer), static_cast<std::size_t>(group.rank()), exchange));
      }
    }
    for (const SentPieces& pieces : sent) pieces.request->wait(soon(), "pieces");
  });
}

TEST(Group, ReduceScatterGivesEachRankItsPartOfTheSum) {
  for_group_sizes([](Group& group) {
    const std::size_t count = 1234;
    const std::vector<float> input = values_of(group.rank(), count * group.size());
    std::vector<float> output(count);
    group.reduce_scatter(bytes_of(input), room_of(output), ElementType::kFloat32)->wait(soon(), "gradients");
    const std::vector<float> sum = sum_of(group.size(), count * group.size());
    EXPECT_EQ(output, std::vector<float>(sum.begin() + group.rank() * count, sum.begin() + (group.rank() + 1) * count));
  });
}

TEST(Group, AllGatherPutsPartsInRankOrder) {
  for_group_sizes([](Group& group) {
    const std::vector<int> input(3, group.rank());
    std::vector<int> output(3 * group.size());
    group.all_gather(bytes_of(input), room_of(output))->wait(soon(), "parameters");
    for (std::size_t i = 0; i < output.size(); ++i) EXPECT_EQ(output[i], static_cast<int>(i / 3));
  });
}

TEST(Group, AllGatherWorksInPlace) {
  for_group_sizes([](Group& group) {
    std::vector<int> values(2 * group.size(), -1);
    values[2 * group.rank()] = values[2 * group.rank() + 1] = group.rank();
    MutableBytes all = room_of(values);
    group.all_gather({all.data + group.rank() * 8, 8}, all)->wait(soon(), "parameters");
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], static_cast<int>(i / 2));
  });
}

TEST(Group, AllToAllTakesUnevenAndEmptyParts) {
  for_group_sizes([](Group& group) {
    const auto size_between = [](int from, int to) { return static_cast<std::size_t>((from * 7 + to * 3) % 5); };
    std::string input;
    std::vector<std::size_t> send_sizes, recv_sizes;
    std::string expected;
    for (int peer = 0; peer < group.size(); ++peer) {
      send_sizes.push_back(size_between(group.rank(), peer));
      recv_sizes.push_back(size_between(peer, group.rank()));
      input += std::string(send_sizes.back(), static_cast<char>('a' + group.rank()));
      expected += std::string(recv_sizes.back(), static_cast<char>('a' + peer));
    }
    std::string output(expected.size(), '.');
    group.all_to_all(bytes_of(input), send_sizes, room_of(output), recv_sizes)->wait(soon(), "tokens");
    EXPECT_EQ(output, expected);
  });
}

TEST(Group, BroadcastsFromAnyRank) {
  for_group_sizes([](Group& group) {
    for (int root = 0; root < group.size(); ++root) {
      std::vector<int> data(100, group.rank());
      group.broadcast(room_of(data), root, soon());
      EXPECT_EQ(data, std::vector<int>(100, root));
    }
  });
}

TEST(Group, GathersStringsOfDifferentLengths) {
  for_group_sizes([](Group& group) {
    const std::vector<std::string> all = group.all_gather_strings(std::string(group.rank() * 3, 'x'), soon());
    for (int rank = 0; rank < group.size(); ++rank) EXPECT_EQ(all[rank], std::string(rank * 3, 'x'));
  });
}

TEST(Group, HoldsNoOneBackBeforeTheLastEntersTheBarrier) {
  for (const int ranks : {2, 3, 7}) {
    std::atomic<int> entered{0};
    run_inproc(ranks, [&](Communicator& comm) {
      const auto group = comm.group(all_ranks(ranks), "all");
      for (int round = 1; round <= 20; ++round) {
        ++entered;
        group->barrier(soon());
        EXPECT_GE(entered, round * ranks);
        group->barrier(soon());
      }
    });
  }
}

TEST(Group, UsesTheGroupsOrderOfRanksNotTheWorlds) {
  run_inproc(4, [](Communicator& comm) {
    if (comm.transport().rank() == 0) return;
    const auto group = comm.group(std::vector<int>{3, 1, 2}, "some");
    const int rank = comm.transport().rank();
    std::vector<int> output(3);
    group->all_gather({reinterpret_cast<const std::byte*>(&rank), sizeof rank}, room_of(output))->wait(soon(), "");
    EXPECT_EQ(output, (std::vector<int>{3, 1, 2}));
  });
}

TEST(Group, LetsTwoThreadsUseOneGroupEach) {
  run_inproc(3, [](Communicator& comm) {
    const auto lane = [&comm](const std::string& name, int factor) {
      const auto group = comm.group(all_ranks(3), name);
      for (std::int64_t i = 0; i < 200; ++i) {
        std::vector<std::int64_t> value{i * factor};
        group->all_reduce(room_of(value), ElementType::kInt64)->wait(soon(), "");
        EXPECT_EQ(value[0], 3 * i * factor);
      }
    };
    std::thread forward(lane, "forward", 1);
    lane("backward", 1000);
    forward.join();
  });
}

TEST(Group, KeepsOverlappingCollectivesApart) {
  run_inproc(4, [](Communicator& comm) {
    const auto group = comm.group(all_ranks(4), "all");
    constexpr std::size_t kCount = 20'000;
    std::vector<std::vector<float>> data;
    std::vector<RequestPtr> requests;
    for (int i = 0; i < 8; ++i) data.push_back(values_of(comm.transport().rank(), kCount - i));
    for (auto& values : data) requests.push_back(group->all_reduce(room_of(values), ElementType::kFloat32));
    for (auto request = requests.rbegin(); request != requests.rend(); ++request) (*request)->wait(soon(), "");
    for (int i = 0; i < 8; ++i) EXPECT_EQ(data[i], sum_of(4, kCount - i));
  });
}

TEST(Group, NamesTheCollectiveAndTheGroupWhenADeadlinePasses) {
  run_inproc(2, [](Communicator& comm) {
    if (comm.transport().rank() != 0) return;
    comm.transport().set_status("step 3, reduce");
    const auto group = comm.group(all_ranks(2), "dp 0");
    std::vector<float> values(3);
    try {
      group->all_reduce(room_of(values), ElementType::kFloat32)
          ->wait(Deadline::after_seconds(0.1), "gradients of stage 0");
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(),
                  testing::HasSubstr("gradients of stage 0, all_reduce in group 'dp 0'; rank 0 is in step 3"));
    }
  });
}

TEST(Group, RefusesARankThatIsNotInIt) {
  run_inproc(2, [](Communicator& comm) {
    if (comm.transport().rank() != 0) return;
    EXPECT_THROW(comm.group(std::vector<int>{1}, "other"), Bug);
  });
}

TEST(Reduce, SumsBFloat16InFloat32AndRoundsOnceToNearestEven) {
  // 1 + 1/256 + 1/256: each addend alone would be rounded away in bfloat16.
  const std::uint16_t one = 0x3f80, small = 0x3b80;
  const std::array<const std::uint16_t*, 3> values{&one, &small, &small};
  std::vector<const std::byte*> sources;
  for (const auto* value : values) sources.push_back(reinterpret_cast<const std::byte*>(value));
  std::uint16_t sum = 0;
  sum_in_order(ElementType::kBFloat16, sources, reinterpret_cast<std::byte*>(&sum), 2);
  EXPECT_EQ(sum, 0x3f81);
  sources.pop_back();  // 1 + 1/256 lies half way between two values; the even one is 1
  sum_in_order(ElementType::kBFloat16, sources, reinterpret_cast<std::byte*>(&sum), 2);
  EXPECT_EQ(sum, 0x3f80);
}

TEST(Reduce, KeepsNotANumberInBFloat16) {
  const std::uint16_t nan = 0x7f81;
  const std::byte* source = reinterpret_cast<const std::byte*>(&nan);
  std::uint16_t sum = 0;
  sum_in_order(ElementType::kBFloat16, {&source, 1}, reinterpret_cast<std::byte*>(&sum), 2);
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(static_cast<std::uint32_t>(sum) << 16)));
}

}  // namespace
}  // namespace ppctl
