#include "comm/inproc.hpp"

#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "comm/buffer_pool.hpp"
#include "comm/group.hpp"
#include "comm/mailbox_transport.hpp"

namespace ppctl {
namespace {

class InprocTransport;

/// What the threads share.
struct Hub {
  explicit Hub(int ranks) : panels(ranks), transports(ranks) {}
  std::vector<RankPanel> panels;
  std::vector<InprocTransport*> transports;
  BufferPool buffers;
};

class InprocTransport : public MailboxTransport {
 public:
  InprocTransport(Hub& hub, int rank) : hub_(hub), rank_(rank) { hub.transports[rank] = this; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(hub_.panels.size()); }

 protected:
  RankPanel* panel(int rank) override { return &hub_.panels[rank]; }

  void send(std::span<const int> peers, std::span<const std::int64_t> tags,
            std::span<const ConstBytes> bytes) override {
    Payload payload;
    for (const ConstBytes& part : bytes) payload.size += part.size;
    const std::shared_ptr<std::byte> copy = hub_.buffers.take(payload.size);
    std::byte* end = copy.get();
    for (const ConstBytes& part : bytes) {
      if (part.size != 0) std::memcpy(end, part.data, part.size);
      end += part.size;
    }
    payload.data = copy;
    for (std::size_t i = 0; i < peers.size(); ++i) hub_.transports[peers[i]]->take(rank_, tags[i], payload);
  }

 private:
  void take(int sender, std::int64_t tag, const Payload& payload) {
    {
      const std::lock_guard lock(mutex());
      mailbox().deliver(sender, tag, payload);
    }
    hub_.panels[rank_].doorbell.ring();
  }

  Hub& hub_;
  int rank_;
};

class InprocCommunicator : public Communicator {
 public:
  InprocCommunicator(Hub& hub, int rank) : transport_(hub, rank) {}
  Transport& transport() override { return transport_; }
  std::unique_ptr<Group> group(std::span<const int> world_ranks, const std::string& name) override {
    return make_group(transport_, world_ranks, name);
  }

 private:
  InprocTransport transport_;
};

}  // namespace

void run_inproc(int ranks, const std::function<void(Communicator&)>& body) {
  PPCTL_CHECK(ranks >= 1, "{} ranks", ranks);
  Hub hub(ranks);
  // Every mailbox exists before any rank sends, and until the last has ended.
  std::vector<std::unique_ptr<InprocCommunicator>> communicators;
  for (int rank = 0; rank < ranks; ++rank) communicators.push_back(std::make_unique<InprocCommunicator>(hub, rank));

  std::mutex mutex;
  std::exception_ptr first;
  const auto run_rank = [&](int rank) {
    Communicator& communicator = *communicators[rank];
    const auto keep = [&](std::string_view reason) {
      {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
      communicator.transport().abort(reason);
    };
    try {
      body(communicator);
      hub.panels[rank].left.store(1, std::memory_order_release);
    } catch (const std::exception& error) {
      keep(error.what());
    } catch (...) {
      keep("an unknown exception");
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 1; rank < ranks; ++rank) threads.emplace_back(run_rank, rank);
  run_rank(0);
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace ppctl
