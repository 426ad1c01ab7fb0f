#include "comm/emulated_link.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "comm/group.hpp"

namespace ppctl {
namespace {

/// Sleeps are cut into slices, between which a failure of the job is noticed.
constexpr Nanoseconds kSlice = 20'000'000;

/// Sleeps until a point in time, to some microseconds: the kernel's usual slack of 50 us would count as latency of the
/// link.
void sleep_until(Nanoseconds at) {
  const int slack = prctl(PR_GET_TIMERSLACK);
  prctl(PR_SET_TIMERSLACK, 1UL);
  std::this_thread::sleep_until(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(at)));
  prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(std::max(slack, 0)));
}

/// What each message carries in front: when its link will have brought it.
struct Stamp {
  Nanoseconds available = 0;
};

/// How long a link takes for one message.
Nanoseconds latency_of(const LinkModel& link) { return static_cast<Nanoseconds>(link.latency_us * 1e3); }
Nanoseconds occupancy_of(const LinkModel& link, std::size_t bytes) {
  return link.bandwidth_gbps > 0 ? static_cast<Nanoseconds>(static_cast<double>(bytes) * 8 / link.bandwidth_gbps) : 0;
}

class EmulatedTransport;

/// The operations of one start, below, with the stamps of the messages that they send or receive.
class EmulatedRequest : public Request {
 public:
  EmulatedRequest(EmulatedTransport& transport, std::vector<P2POp> ops);

  bool test() override {
    if (!finish_below()) return false;
    return monotonic_now() >= available_;
  }

  void wait(Deadline deadline, std::string_view context) override;

 private:
  bool finish_below() {
    if (!arrived_ && below_->test()) arrive();
    return arrived_;
  }
  void arrive();

  struct Received {
    int peer = -1;
    std::size_t bytes = 0;              ///< of the message, with its stamp; 0 for a send
    std::size_t* for_caller = nullptr;  ///< where the caller wants the size
  };

  EmulatedTransport& transport_;
  int peer_ = -1;  ///< of the last receive, for texts
  std::int64_t tag_ = 0;
  std::vector<Stamp> stamps_;       ///< one an operation
  std::vector<Received> received_;  ///< one an operation
  RequestPtr below_;
  Nanoseconds posted_ = 0;
  bool arrived_ = false;
  Nanoseconds available_ = 0;
};

class EmulatedTransport : public Transport {
 public:
  EmulatedTransport(Transport& below, const LinkOf& link_of) : below_(below) {
    for (int peer = 0; peer < below.size(); ++peer) {
      const bool is_self = peer == below.rank();
      links_.push_back(is_self ? LinkModel{} : link_of(below.rank(), peer));
      incoming_.push_back(is_self ? LinkModel{} : link_of(peer, below.rank()));
      PPCTL_CHECK(links_.back().latency_us >= 0 && links_.back().bandwidth_gbps >= 0, "a link of {} us and {} Gb/s",
                  links_.back().latency_us, links_.back().bandwidth_gbps);
    }
    free_at_.resize(links_.size(), 0);
  }

  int rank() const override { return below_.rank(); }
  int size() const override { return below_.size(); }
  RequestPtr start(P2POp op) override {
    std::vector<P2POp> ops;
    ops.push_back(std::move(op));
    return start_batch(std::move(ops));
  }
  RequestPtr start_batch(std::vector<P2POp> ops) override {
    return std::make_unique<EmulatedRequest>(*this, std::move(ops));
  }
  void set_status(std::string_view status) override { below_.set_status(status); }
  void abort(std::string_view reason) override { below_.abort(reason); }
  std::optional<std::string> failure() override { return below_.failure(); }

  Transport& below() { return below_; }

  /// Puts a message on the link to `peer`; when it will have crossed.
  Nanoseconds cross(int peer, std::size_t bytes) {
    const LinkModel& link = links_[peer];
    const std::lock_guard lock(mutex_);
    Nanoseconds& free_at = free_at_[peer];
    free_at = std::max(free_at, monotonic_now()) + occupancy_of(link, bytes);
    return free_at + latency_of(link);
  }

  /// When a message from `peer` whose receive was posted at `posted` can be there at the earliest.
  Nanoseconds earliest(int peer, std::size_t bytes, Nanoseconds posted) const {
    const LinkModel& link = incoming_[peer];
    return link.rendezvous ? posted + occupancy_of(link, bytes) + latency_of(link) : 0;
  }

 private:
  Transport& below_;
  std::vector<LinkModel> links_;     ///< from this rank to each
  std::vector<LinkModel> incoming_;  ///< from each to this rank
  std::mutex mutex_;
  std::vector<Nanoseconds> free_at_;  ///< when each link has finished what it was given
};

EmulatedRequest::EmulatedRequest(EmulatedTransport& transport, std::vector<P2POp> ops)
    : transport_(transport), stamps_(ops.size()), received_(ops.size()), posted_(monotonic_now()) {
  for (std::size_t i = 0; i < ops.size(); ++i) {
    P2POp& op = ops[i];
    auto* stamp = reinterpret_cast<std::byte*>(&stamps_[i]);
    if (op.kind == P2POp::Kind::kSend) {
      std::size_t bytes = 0;
      for (const ConstBytes& part : op.send) bytes += part.size;
      stamps_[i].available = transport.cross(op.peer, bytes);
      op.send.insert(op.send.begin(), ConstBytes{stamp, sizeof(Stamp)});
    } else {
      peer_ = op.peer;
      tag_ = op.tag;
      op.recv.insert(op.recv.begin(), MutableBytes{stamp, sizeof(Stamp)});
      received_[i].peer = op.peer;
      received_[i].for_caller = std::exchange(op.received, &received_[i].bytes);
    }
  }
  below_ = transport.below().start_batch(std::move(ops));
}

void EmulatedRequest::arrive() {
  arrived_ = true;
  for (std::size_t i = 0; i < received_.size(); ++i) {
    const Received& received = received_[i];
    if (received.bytes == 0) continue;
    const std::size_t bytes = received.bytes - sizeof(Stamp);
    available_ = std::max({available_, stamps_[i].available, transport_.earliest(received.peer, bytes, posted_)});
    if (received.for_caller != nullptr) *received.for_caller = bytes;
  }
}

void EmulatedRequest::wait(Deadline deadline, std::string_view context) {
  if (!arrived_) {
    below_->wait(deadline, context);
    arrive();
  }
  for (Nanoseconds now = monotonic_now(); now < available_; now = monotonic_now()) {
    if (now >= deadline.at) {
      throw_error(
          "rank {}: the emulated link from rank {} takes {:.3f} s longer than the deadline for a message with tag {}: "
          "{}",
          transport_.rank(), peer_, static_cast<double>(available_ - deadline.at) * 1e-9, tag_, context);
    }
    sleep_until(std::min({available_, deadline.at, now + kSlice}));
    if (available_ - now <= kSlice) continue;
    if (const auto failure = transport_.failure()) {
      throw_error("{} (rank {} was waiting: {})", *failure, transport_.rank(), context);
    }
  }
}

class EmulatedCommunicator : public Communicator {
 public:
  EmulatedCommunicator(Communicator& below, const LinkOf& link_of) : transport_(below.transport(), link_of) {}
  Transport& transport() override { return transport_; }
  std::unique_ptr<Group> group(std::span<const int> world_ranks, const std::string& name) override {
    return make_group(transport_, world_ranks, name);
  }

 private:
  EmulatedTransport transport_;
};

}  // namespace

std::unique_ptr<Communicator> emulate_links(Communicator& below, const LinkOf& link_of) {
  return std::make_unique<EmulatedCommunicator>(below, link_of);
}

std::unique_ptr<Communicator> emulate_links(Communicator& below, LinkModel link) {
  return emulate_links(below, [link](int, int) { return link; });
}

}  // namespace ppctl
