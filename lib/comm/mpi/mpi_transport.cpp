#include "comm/mpi/mpi_transport.hpp"

#include <unistd.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/log.hpp"

namespace ppctl {
namespace {

constexpr Nanoseconds kMicrosecond = 1000;
constexpr Nanoseconds kMillisecond = 1000 * kMicrosecond;
/// In MPI only, next to the tags of messages: the text of an abort.
constexpr std::int64_t kAbortTag = -1;
/// How long an abort may take to leave for other machines.
constexpr Nanoseconds kAbortTime = 100 * kMillisecond;
/// A message that comes soon after its receive is met awake: going to sleep and waking up costs 25 us, a look without
/// sleep 1 us.
constexpr Nanoseconds kSpin = 50 * kMicrosecond;

/// Spinning pays only if every rank of the machine has a core. It yields the core at each look, so that another thread
/// of this rank that shares the core gets it at once, and the spin has ended when that thread is through.
Nanoseconds choose_spin(std::size_t local_ranks) {
  return static_cast<long>(local_ranks) <= sysconf(_SC_NPROCESSORS_ONLN) ? kSpin : 0;
}

}  // namespace

MpiTransport::MpiTransport(MpiNeighbourhood neighbourhood, MPI_Comm communicator, std::size_t piece_bytes)
    : place_(std::move(neighbourhood)),
      index_of_(static_cast<std::size_t>(place_.size), -1),
      link_(communicator, piece_bytes) {
  if (place_.memory) {
    for (std::size_t i = 0; i < place_.local_ranks.size(); ++i) index_of_[place_.local_ranks[i]] = static_cast<int>(i);
  } else {
    private_panel_ = std::make_unique<RankPanel>();
  }
  uses_link_ = place_.messages_through_mpi || std::count(index_of_.begin(), index_of_.end(), -1) != 0;
  spin_time_ = choose_spin(place_.local_ranks.size());
  if (uses_link_) progress_ = std::jthread([this](const std::stop_token& stop) { progress(stop); });
}

MpiTransport::~MpiTransport() = default;

RankPanel* MpiTransport::panel(int rank) {
  if (index_of_[rank] >= 0) return &place_.memory->panel(index_of_[rank]);
  return rank == place_.rank ? private_panel_.get() : nullptr;
}

void MpiTransport::send_through_mpi(int peer, std::int64_t tag, std::span<const ConstBytes> bytes) {
  std::size_t size = 0;
  for (const ConstBytes& part : bytes) size += part.size;
  const std::shared_ptr<std::byte> packed = link_.pack(tag, bytes, size);
  const std::lock_guard lock(mutex());
  link_.send(peer, packed, size);
}

void MpiTransport::send(std::span<const int> peers, std::span<const std::int64_t> tags,
                        std::span<const ConstBytes> bytes) {
  std::vector<int> near;
  std::vector<std::int64_t> near_tags;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (index_of_[peers[i]] < 0 || place_.messages_through_mpi) {
      send_through_mpi(peers[i], tags[i], bytes);
    } else {
      near.push_back(index_of_[peers[i]]);
      near_tags.push_back(tags[i]);
    }
  }
  if (!near.empty()) place_.memory->send(near, near_tags, bytes);
}

void MpiTransport::bring_in() {
  if (place_.memory) {
    place_.memory->receive(
        [this](int sender, std::int64_t tag, Payload payload) { mailbox().deliver(sender, tag, std::move(payload)); });
  }
  if (uses_link_) poll_link();
}

bool MpiTransport::poll_link() {
  return link_.poll([this](int sender, std::int64_t tag, Payload payload) {
    if (tag == kAbortTag) {
      panel(place_.rank)->fail({reinterpret_cast<const char*>(payload.data.get()), payload.size});
    } else {
      mailbox().deliver(sender, tag, std::move(payload));
    }
  });
}

void MpiTransport::progress(const std::stop_token& stop) {
  // Between polls the thread sleeps: shortly while a transfer is under way, longer when nothing is.
  Nanoseconds sleep = kMillisecond;
  while (!stop.stop_requested()) {
    bool moved = false;
    bool busy = false;
    try {
      const std::lock_guard lock(mutex());
      moved = poll_link();
      busy = link_.busy();
    } catch (const Error& error) {
      panel(place_.rank)->fail(error.what());
      return;
    }
    if (moved) panel(place_.rank)->doorbell.ring();
    sleep = busy || moved ? 100 * kMicrosecond : std::min(2 * sleep, kMillisecond);
    std::this_thread::sleep_for(std::chrono::nanoseconds(sleep));
  }
}

Nanoseconds MpiTransport::nap(Nanoseconds waited) const {
  if (!uses_link_) return MailboxTransport::nap(waited);
  // No one rings for a message through MPI, so it is looked for, less often the longer it takes.
  return std::clamp<Nanoseconds>(waited / 4, 10 * kMicrosecond, 500 * kMicrosecond);
}

void MpiTransport::abort_remote(std::string_view reason) {
  const ConstBytes text{reinterpret_cast<const std::byte*>(reason.data()), reason.size()};
  bool sent = false;
  for (int peer = 0; peer < place_.size; ++peer) {
    if (panel(peer) != nullptr) continue;
    try {
      send_through_mpi(peer, kAbortTag, {&text, 1});
      sent = true;
    } catch (const Error& error) {
      log_warn("rank {} cannot be told of the failure: {}", peer, error.what());
    }
  }
  const Nanoseconds end = monotonic_now() + kAbortTime;
  while (sent && !flushed() && monotonic_now() < end) std::this_thread::sleep_for(std::chrono::microseconds(100));
}

std::optional<std::string> MpiTransport::find_dead() {
  if (!place_.memory) return std::nullopt;
  std::string dead;
  std::string others;
  std::string known;  // what a rank that has ended had noticed: its end follows from another's
  for (std::size_t i = 0; i < place_.local_ranks.size(); ++i) {
    const int other = place_.local_ranks[i];
    if (other == place_.rank) continue;
    const ProcessId& process = place_.memory->process(static_cast<int>(i));
    RankPanel& shown = *panel(other);
    std::string status = shown.status.read();
    if (status.empty()) status = "set-up";
    // A rank that ends in order, or because of a failure, says so before it ends, so that this order of questions has
    // no race.
    const bool alive = is_alive(process);
    const bool noticed = shown.failed.load(std::memory_order_acquire) != 0;
    if (!alive && !noticed && shown.left.load(std::memory_order_acquire) == 0) {
      dead += fmt::format("{}rank {} (pid {}) died in {}", dead.empty() ? "" : ", ", other, process.pid, status);
      continue;
    }
    if (!alive && noticed) known = shown.failure.read();
    others += fmt::format(", rank {} in {}", other, status);
  }
  if (dead.empty()) return known.empty() ? std::nullopt : std::optional(known);
  const std::string mine = panel(place_.rank)->status.read();
  return fmt::format("{}; rank {} was in {}{}", dead, place_.rank, mine.empty() ? "set-up" : mine, others);
}

std::optional<std::string> MpiTransport::find_stopped() {
  if (!place_.memory) return std::nullopt;
  std::string stopped;
  for (std::size_t i = 0; i < place_.local_ranks.size(); ++i) {
    const ProcessId& process = place_.memory->process(static_cast<int>(i));
    if (!is_stopped(process)) continue;
    const int other = place_.local_ranks[i];
    const std::string status = panel(other)->status.read();
    stopped += fmt::format("{}rank {} (pid {}) was stopped in {}", stopped.empty() ? "" : ", ", other, process.pid,
                           status.empty() ? "set-up" : status);
  }
  return stopped.empty() ? std::nullopt : std::optional(stopped);
}

bool MpiTransport::flushed() {
  if (!uses_link_) return true;
  const std::lock_guard lock(mutex());
  poll_link();
  return !link_.busy();
}

void MpiTransport::leave() { panel(place_.rank)->left.store(1, std::memory_order_release); }

bool MpiTransport::failed() { return panel(place_.rank)->failed.load(std::memory_order_acquire) != 0; }

}  // namespace ppctl
