// What the ranks of tests/mpi do: `mpirun -np N mpi_ranks SCENARIO`. A rank that finds something wrong throws.
#include <signal.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "comm/edge.hpp"
#include "comm/mesh_groups.hpp"
#include "comm/mpi/mpi.hpp"
#include "unit/comm/bytes.hpp"

namespace ppctl {
namespace {

volatile std::sig_atomic_t terminated = 0;

Deadline soon() { return Deadline::after_seconds(60); }

std::vector<int> all_ranks(Transport& transport) {
  std::vector<int> ranks;
  for (int rank = 0; rank < transport.size(); ++rank) ranks.push_back(rank);
  return ranks;
}

std::string random_text(unsigned seed, std::size_t longest) {
  std::mt19937 random(seed);
  std::string text(random() % (longest + 1), '.');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

/// Two threads send messages of all sizes to all ranks, themselves included, and receive them in another order.
void traffic(Communicator& comm) {
  Transport& transport = comm.transport();
  constexpr int kRounds = 60;
  const auto text_of = [](int from, int to, int lane, int round) {
    return random_text(static_cast<unsigned>(((from * 16 + to) * 2 + lane) * kRounds + round),
                       round % 10 == 0 ? 400'000 : 3000);
  };
  const auto run_lane = [&](int lane) {
    const auto tag_of = [lane](int round) { return (std::int64_t{1} << 40) + lane * 1000 + round; };
    for (int round = 0; round < kRounds; ++round) {
      for (int peer = 0; peer < transport.size(); ++peer) {
        const std::string text = text_of(transport.rank(), peer, lane, round);
        P2POp op{.kind = P2POp::Kind::kSend, .peer = peer, .tag = tag_of(round)};
        op.send = {{bytes_of(text).data, text.size() / 2},
                   {bytes_of(text).data + text.size() / 2, text.size() - text.size() / 2}};
        transport.start(std::move(op))->wait(soon(), "send");
      }
    }
    for (int round = kRounds - 1; round >= 0; --round) {
      for (int peer = 0; peer < transport.size(); ++peer) {
        std::string got(400'000, '.');
        std::size_t size = 0;
        transport
            .start({.kind = P2POp::Kind::kRecv,
                    .peer = peer,
                    .tag = tag_of(round),
                    .recv = {room_of(got)},
                    .received = &size})
            ->wait(soon(), "receive");
        got.resize(size);
        PPCTL_CHECK(got == text_of(peer, transport.rank(), lane, round), "round {} from {}", round, peer);
      }
    }
  };
  std::thread other(run_lane, 1);
  run_lane(0);
  other.join();
}

void groups(Communicator& comm) {
  Transport& transport = comm.transport();
  const auto run_lane = [&](const std::string& name) {
    const auto group = comm.group(all_ranks(transport), name);
    const int size = group->size();
    for (const std::size_t count : {std::size_t{1}, std::size_t{1001}, std::size_t{100'000}}) {
      std::vector<std::int64_t> values(count, group->rank() + 1);
      group->all_reduce(room_of(values), ElementType::kInt64)->wait(soon(), "reduce");
      for (const std::int64_t value : values) PPCTL_CHECK_EQ(value, size * (size + 1) / 2);

      std::vector<std::int64_t> all(count * static_cast<std::size_t>(size));
      const std::vector<std::int64_t> mine(count, group->rank());
      group->all_gather(bytes_of(mine), room_of(all))->wait(soon(), "gather");
      for (std::size_t i = 0; i < all.size(); ++i) PPCTL_CHECK_EQ(all[i], static_cast<std::int64_t>(i / count));

      group->reduce_scatter(bytes_of(all), room_of(values), ElementType::kInt64)->wait(soon(), "scatter");
      for (const std::int64_t value : values) PPCTL_CHECK_EQ(value, size * group->rank());
    }
    for (int round = 0; round < 200; ++round) group->barrier(soon());
    const std::vector<std::string> texts = group->all_gather_strings(std::string(group->rank(), 'x'), soon());
    for (int rank = 0; rank < size; ++rank) PPCTL_CHECK_EQ(texts[rank], std::string(rank, 'x'));
  };
  std::thread other(run_lane, "one");
  run_lane("two");
  other.join();
}

/// A mesh of pp 2 x dp_shard 2: along each axis a sum, and pieces that lie scattered.
void mesh(Communicator& comm) {
  const Mesh shape(2, 1, 2);
  const MeshGroups groups(comm, shape);
  const int rank = comm.transport().rank();
  for (const MeshAxis axis : {MeshAxis::kPipeline, MeshAxis::kDpShard}) {
    Group& group = groups.along(axis);
    std::vector<std::int64_t> ranks{rank};
    group.all_reduce(room_of(ranks), ElementType::kInt64)->wait(soon(), "sum");
    const std::vector<int> members = shape.ranks_along(axis, rank);
    PPCTL_CHECK_EQ(ranks[0], members[0] + members[1]);

    const int peer = 1 - group.rank();
    for (const std::size_t count : {std::size_t{1}, std::size_t{100'000}}) {
      // Each rank sends its even elements; the other puts them where its odd ones are.
      std::vector<std::int64_t> values(2 * count, rank);
      std::vector<std::vector<ConstBytes>> send(2);
      std::vector<std::vector<MutableBytes>> receive(2);
      for (std::size_t i = 0; i < count; ++i) {
        send[peer].push_back({reinterpret_cast<const std::byte*>(&values[2 * i]), sizeof values[0]});
        receive[peer].push_back({reinterpret_cast<std::byte*>(&values[2 * i + 1]), sizeof values[0]});
      }
      group.exchange_pieces(send, receive)->wait(soon(), "pieces");
      for (std::size_t i = 0; i < count; ++i) PPCTL_CHECK_EQ(values[2 * i + 1], members[peer]);
    }
  }
}

/// Tensors of changing shapes go round the ring of ranks.
void edges(Communicator& comm) {
  Transport& transport = comm.transport();
  EdgeSender sender(transport, (transport.rank() + 1) % transport.size());
  EdgeReceiver receiver(transport, (transport.rank() + transport.size() - 1) % transport.size());
  for (std::int64_t step = 0; step < 10; ++step) {
    for (int tag = 0; tag < 4; ++tag) receiver.post(tag);
    for (int tag = 0; tag < 4; ++tag) {
      const std::vector<float> values(static_cast<std::size_t>(3000 * (step / 3 + 1)),
                                      static_cast<float>(step * 4 + tag));
      const std::vector<std::int64_t> dims{3, 1000 * (step / 3 + 1)};
      const EdgeTensor tensor{ElementType::kFloat32, dims, bytes_of(values)};
      sender.start(tag, {&tensor, 1})->wait(soon(), "send");
      const EdgeMessage got = receiver.wait(tag, soon(), "receive");
      PPCTL_CHECK(got.tensors.size() == 1 && got.tensors[0].dims == dims, "other shapes in step {}", step);
      const auto* floats = reinterpret_cast<const float*>(got.data(0));
      PPCTL_CHECK(std::vector<float>(floats, floats + values.size()) == values, "other values in step {}", step);
    }
  }
}

/// Messages that go through MPI in pieces, with small ones between them.
void large(Communicator& comm) {
  Transport& transport = comm.transport();
  const int peer = 1 - transport.rank();
  std::vector<std::string> sent, got;
  std::vector<P2POp> batch;
  for (const std::size_t size :
       {std::size_t{20'000'000}, std::size_t{3}, std::size_t{1} << 20, (std::size_t{1} << 20) + 1}) {
    std::string text(size, '.');
    for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 7 + i / 1000 + size);
    sent.push_back(std::move(text));
    got.emplace_back(size, '.');
  }
  for (std::size_t i = 0; i < sent.size(); ++i) {
    batch.push_back({.kind = P2POp::Kind::kSend, .peer = peer, .tag = 1, .send = {bytes_of(sent[i])}});
    batch.push_back({.kind = P2POp::Kind::kRecv, .peer = peer, .tag = 1, .recv = {room_of(got[i])}});
  }
  transport.start_batch(std::move(batch))->wait(soon(), "large messages");
  for (std::size_t i = 0; i < sent.size(); ++i) PPCTL_CHECK(sent[i] == got[i], "message {} differs", i);
}

/// A sender never waits for a receive to be posted, however many messages there are.
void unreceived(Communicator& comm) {
  Transport& transport = comm.transport();
  constexpr std::int64_t kMessages = 20'000;
  const auto group = comm.group(all_ranks(transport), "all");
  if (transport.rank() == 0) {
    for (std::int64_t i = 0; i < kMessages; ++i) transport.start(send_to(1, 0, i))->wait(soon(), "send");
  }
  group->barrier(soon());
  if (transport.rank() == 1) {
    for (std::int64_t i = 0; i < kMessages; ++i) {
      std::int64_t got = -1;
      transport.start(receive_from(0, 0, got))->wait(soon(), "receive");
      PPCTL_CHECK_EQ(got, i);
    }
  }
}

void wait_for_rank_1(Transport& transport) {
  std::int64_t never = 0;
  transport.start(receive_from(1, 5, never))->wait(soon(), "the activations");
}

/// mpirun sends survivors SIGTERM, sometimes within milliseconds; a trainer catches it.
void catch_sigterm() {
  std::signal(SIGTERM, [](int) { terminated = 1; });
}

void kill(Communicator& comm) {
  Transport& transport = comm.transport();
  catch_sigterm();
  transport.set_status(transport.rank() == 1 ? "step 12, 3F4" : "step 12, 1B2");
  comm.group(all_ranks(transport), "all")->barrier(soon());
  if (transport.rank() == 1) std::raise(SIGKILL);
  wait_for_rank_1(transport);
}

void kill_while_others_compute(Communicator& comm) {
  Transport& transport = comm.transport();
  catch_sigterm();
  transport.set_status(transport.rank() == 1 ? "step 12, 3F4" : "step 12, 1B2");
  comm.group(all_ranks(transport), "all")->barrier(soon());
  if (transport.rank() == 1) std::raise(SIGKILL);
  while (terminated == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const std::optional<std::string> failure = transport.failure();
  throw_error("SIGTERM because {}", failure ? *failure : "the user wants it");
}

void throw_on_rank_1(Communicator& comm) {
  if (comm.transport().rank() == 1) throw Error("the data ended");
  wait_for_rank_1(comm.transport());
}

void deadline(Communicator& comm) {
  Transport& transport = comm.transport();
  transport.set_status(transport.rank() == 1 ? "step 2, 0F1" : "step 2, 1B2");
  comm.group(all_ranks(transport), "all")->barrier(soon());
  if (transport.rank() == 1) {
    std::int64_t never = 0;
    transport.start(receive_from(0, 5, never))->wait(soon(), "nothing");
  }
  std::int64_t never = 0;
  transport.start(receive_from(1, 17, never))->wait(Deadline::after_seconds(0.3), "the gradient");
}

/// Rank 2 waits for rank 0, which waits for rank 1, which is stopped.
void stopped(Communicator& comm) {
  Transport& transport = comm.transport();
  transport.set_status(transport.rank() == 1 ? "step 12, 3F4" : "step 12, 1B2");
  std::int64_t process = getpid();
  if (transport.rank() == 1) {
    transport.start({.kind = P2POp::Kind::kSend, .peer = 2, .tag = 4, .send = {bytes_of(std::vector{process})}});
    std::raise(SIGSTOP);
  }
  std::int64_t never = 0;
  if (transport.rank() == 0) transport.start(receive_from(1, 5, never))->wait(soon(), "nothing");
  transport.start(receive_from(1, 4, process))->wait(soon(), "the process");
  try {
    transport.start(receive_from(0, 17, never))->wait(Deadline::after_seconds(2), "the gradient");
  } catch (const Error&) {
    ::kill(static_cast<pid_t>(process), SIGKILL);
    throw;
  }
}

void full_memory(Communicator& comm) {
  if (comm.transport().rank() == 1) return wait_for_rank_1(comm.transport());
  const std::string text(1 << 20, 'x');
  for (int i = 0; i < 100; ++i) {
    comm.transport().start({.kind = P2POp::Kind::kSend, .peer = 1, .tag = 1, .send = {bytes_of(text)}});
  }
}

int run(const std::string& scenario) {
  const std::map<std::string, std::function<void(Communicator&)>> scenarios{
      {"traffic", traffic},
      {"traffic_without_shared_memory", traffic},
      {"groups", groups},
      {"mesh", mesh},
      {"edges", edges},
      {"large", large},
      {"unreceived", unreceived},
      {"kill", kill},
      {"kill_while_others_compute", kill_while_others_compute},
      {"throw", throw_on_rank_1},
      {"throw_without_shared_memory", throw_on_rank_1},
      {"deadline", deadline},
      {"stopped", stopped},
      {"full_memory", full_memory},
  };
  MpiOptions options;
  options.piece_bytes = 1 << 20;
  if (scenario.ends_with("without_shared_memory")) options.arena_bytes = 0;
  if (scenario == "full_memory") options.arena_bytes = std::size_t{64} << 20;
  const std::unique_ptr<Communicator> comm = connect_mpi(options);
  const int rank = comm->transport().rank();
  try {
    scenarios.at(scenario)(*comm);
    return 0;
  } catch (const std::exception& error) {
    log_error("rank {}: {}", rank, error.what());
    comm->transport().abort(error.what());
    return 1;
  }
}

}  // namespace
}  // namespace ppctl

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: mpi_ranks SCENARIO\n");
    return 2;
  }
  return ppctl::run(argv[1]);
}
