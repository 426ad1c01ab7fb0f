#include "comm/mailbox_transport.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <exception>

#include "base/error.hpp"
#include "base/log.hpp"

namespace ppctl {
namespace {

constexpr Nanoseconds kMillisecond = 1'000'000;
constexpr Nanoseconds kCheckInterval = 25 * kMillisecond;

/// What a send is to its owner: done.
class Done : public Request {
 public:
  bool test() override { return true; }
  void wait(Deadline, std::string_view) override {}
};

bool same_bytes(const std::vector<ConstBytes>& a, const std::vector<ConstBytes>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const ConstBytes& x, const ConstBytes& y) { return x.data == y.data && x.size == y.size; });
}

std::size_t total_size(const std::vector<MutableBytes>& parts) {
  std::size_t total = 0;
  for (const MutableBytes& part : parts) total += part.size;
  return total;
}

void scatter(const Payload& payload, const std::vector<MutableBytes>& parts) {
  std::size_t at = 0;
  for (const MutableBytes& part : parts) {
    const std::size_t size = std::min(part.size, payload.size - at);
    if (size != 0) std::memcpy(part.data, payload.data.get() + at, size);
    at += size;
  }
}

}  // namespace

/// The receives of an operation. Bytes are copied out by the thread that tests or waits, without a lock.
class MailboxRequest : public Request {
 public:
  MailboxRequest(MailboxTransport& transport, std::vector<P2POp> receives)
      : transport_(transport), ops_(std::move(receives)), posted_(ops_.size()) {
    const std::lock_guard lock(transport_.mutex_);
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      posted_[i].sender = ops_[i].peer;
      posted_[i].tag = ops_[i].tag;
      transport_.mailbox_.post(posted_[i]);
    }
  }

  ~MailboxRequest() override {
    if (done_) return;
    {
      const std::lock_guard lock(transport_.mutex_);
      for (PostedReceive& receive : posted_) transport_.mailbox_.withdraw(receive);
    }
    const bool excused =
        failed_ || std::uncaught_exceptions() != 0 || transport_.panel(transport_.rank())->failed.load() != 0;
    if (!excused) {
      log_error("bug: rank {} destroys a receive from rank {} with tag {} that is in flight", transport_.rank(),
                ops_[0].peer, ops_[0].tag);
    }
  }

  bool test() override {
    if (!done_ && all_arrived()) finish();
    return done_;
  }

  void wait(Deadline deadline, std::string_view context) override {
    if (done_) return;
    try {
      wait_arrived(deadline, context);
      finish();
    } catch (...) {
      failed_ = true;
      throw;
    }
  }

 private:
  bool all_arrived() {
    const std::lock_guard lock(transport_.mutex_);
    transport_.bring_in();
    while (num_arrived_ < posted_.size() && posted_[num_arrived_].arrived) ++num_arrived_;
    return num_arrived_ == posted_.size();
  }

  void wait_arrived(Deadline deadline, std::string_view context) {
    Doorbell& doorbell = transport_.panel(transport_.rank())->doorbell;
    const Nanoseconds begin = monotonic_now();
    for (;;) {
      const std::uint32_t seen = doorbell.count();
      if (all_arrived()) return;
      transport_.throw_if_failed(context);
      const Nanoseconds now = monotonic_now();
      if (now >= deadline.at) throw Error(transport_.timeout_text(posted_[num_arrived_], deadline.at - begin, context));
      if (now - begin < transport_.spin_time()) {
        sched_yield();
      } else {
        doorbell.wait(seen, std::min(deadline.at, now + transport_.nap(now - begin)));
      }
    }
  }

  void finish() {
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      Payload payload = std::move(*posted_[i].arrived);
      posted_[i].arrived.reset();
      const std::size_t room = total_size(ops_[i].recv);
      if (payload.size > room) {
        throw_error("rank {} got {} bytes from rank {} with tag {}, but the receive has room for {}", transport_.rank(),
                    payload.size, ops_[i].peer, ops_[i].tag, room);
      }
      scatter(payload, ops_[i].recv);
      if (ops_[i].received != nullptr) *ops_[i].received = payload.size;
    }
    done_ = true;
  }

  MailboxTransport& transport_;
  std::vector<P2POp> ops_;
  std::vector<PostedReceive> posted_;  ///< never resized: the mailbox points into it
  std::size_t num_arrived_ = 0;
  bool done_ = false;
  bool failed_ = false;
};

RequestPtr MailboxTransport::start(P2POp op) {
  std::vector<P2POp> ops;
  ops.push_back(std::move(op));
  return start_batch(std::move(ops));
}

RequestPtr MailboxTransport::start_batch(std::vector<P2POp> ops) {
  for (const P2POp& op : ops) check(op);
  const auto sends =
      std::stable_partition(ops.begin(), ops.end(), [](const P2POp& op) { return op.kind == P2POp::Kind::kRecv; });
  send_ops({sends, ops.end()});
  ops.erase(sends, ops.end());
  if (ops.empty()) return std::make_unique<Done>();
  return std::make_unique<MailboxRequest>(*this, std::move(ops));
}

void MailboxTransport::send_ops(std::span<P2POp> ops) {
  std::vector<int> peers;
  std::vector<std::int64_t> tags;
  for (std::size_t first = 0; first < ops.size();) {
    // Neighbours that send the same memory (a broadcast, an all-gather) share one copy.
    std::size_t end = first;
    peers.clear();
    tags.clear();
    while (end < ops.size() && same_bytes(ops[first].send, ops[end].send)) {
      peers.push_back(ops[end].peer);
      tags.push_back(ops[end].tag);
      ++end;
    }
    send(peers, tags, ops[first].send);
    first = end;
  }
}

void MailboxTransport::check(const P2POp& op) const {
  PPCTL_CHECK(op.peer >= 0 && op.peer < size(), "rank {} addresses rank {} of {}", rank(), op.peer, size());
  const auto on_cpu = [](const auto& bytes) { return bytes.device == DeviceKind::kCpu; };
  if (!std::all_of(op.send.begin(), op.send.end(), on_cpu) || !std::all_of(op.recv.begin(), op.recv.end(), on_cpu)) {
    throw_error("rank {}: this transport carries memory of the CPU only; a message for rank {} with tag {} is on a GPU",
                rank(), op.peer, op.tag);
  }
}

void MailboxTransport::set_status(std::string_view status) { panel(rank())->status.write(status); }

void MailboxTransport::abort(std::string_view reason) {
  const std::string own_name = fmt::format("rank {}, ", rank());
  if (reason.starts_with(own_name)) reason.remove_prefix(own_name.size());
  const std::string text = fmt::format("rank {} failed: {}", rank(), reason);
  if (panel(rank())->failed.load(std::memory_order_acquire) != 0) return;
  for (int peer = 0; peer < size(); ++peer) {
    if (RankPanel* other = panel(peer)) other->fail(text);
  }
  abort_remote(text);
}

std::optional<std::string> MailboxTransport::failure() {
  RankPanel& mine = *panel(rank());
  if (mine.failed.load(std::memory_order_acquire) == 0) {
    std::optional<std::string> dead = find_dead();
    if (!dead) return std::nullopt;
    mine.fail(*dead);
    abort_remote(*dead);
  }
  // A claimant that has yet to write the text is given no time: the next call finds it.
  if (mine.failed.load(std::memory_order_acquire) == 0) return std::nullopt;
  return mine.failure.read();
}

Nanoseconds MailboxTransport::nap(Nanoseconds) const { return kCheckInterval; }

void MailboxTransport::throw_if_failed(std::string_view context) {
  const bool failed = panel(rank())->failed.load(std::memory_order_acquire) != 0;
  if (!failed) {
    const Nanoseconds now = monotonic_now();
    Nanoseconds due = next_check_.load(std::memory_order_relaxed);
    if (now < due || !next_check_.compare_exchange_strong(due, now + kCheckInterval)) return;
  }
  if (const auto text = failure()) throw_error("{} (rank {} was waiting: {})", *text, rank(), context);
}

std::string MailboxTransport::where(int world_rank) {
  RankPanel* other = panel(world_rank);
  if (other == nullptr) return fmt::format("rank {} cannot be seen from here", world_rank);
  const std::string status = other->status.read();
  if (other->left.load(std::memory_order_acquire) != 0) return fmt::format("rank {} has ended", world_rank);
  return fmt::format("rank {} is in {}", world_rank, status.empty() ? "set-up" : status);
}

std::string MailboxTransport::timeout_text(const PostedReceive& receive, Nanoseconds waited, std::string_view context) {
  const std::optional<std::string> stopped = find_stopped();
  return fmt::format("{}rank {} waited {:.1f} s for a message from rank {} with tag {}: {}; {}, {}",
                     stopped ? *stopped + "; " : "", rank(),
                     static_cast<double>(std::max<Nanoseconds>(waited, 0)) * 1e-9, receive.sender, receive.tag, context,
                     where(rank()), where(receive.sender));
}

}  // namespace ppctl
