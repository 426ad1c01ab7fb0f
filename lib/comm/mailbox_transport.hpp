#pragma once

#include <atomic>
#include <mutex>
#include <span>
#include <string>

#include "comm/mailbox.hpp"
#include "comm/rank_panel.hpp"
#include "comm/transport.hpp"

namespace ppctl {

/// What the CPU transports share: matching, waiting, deadlines, failure. A derived class brings messages to and from
/// other ranks. Sends are buffered: complete when started. All methods may be called by several threads.
class MailboxTransport : public Transport {
 public:
  RequestPtr start(P2POp op) override;
  RequestPtr start_batch(std::vector<P2POp> ops) override;
  void set_status(std::string_view status) override;
  void abort(std::string_view reason) override;
  std::optional<std::string> failure() override;

 protected:
  /// What another rank shows; null when it is not on this machine.
  virtual RankPanel* panel(int rank) = 0;
  /// Buffers one message to each of `peers`, all with the same bytes. Called without the lock.
  virtual void send(std::span<const int> peers, std::span<const std::int64_t> tags,
                    std::span<const ConstBytes> bytes) = 0;
  /// Moves messages that have come into the mailbox. Called with the lock held.
  virtual void bring_in() {}
  /// Tells the ranks that have no panel here that the job fails.
  virtual void abort_remote(std::string_view /*reason*/) {}
  /// Text about ranks that are dead, if any.
  virtual std::optional<std::string> find_dead() { return std::nullopt; }
  /// Text about ranks that are stopped, if any: a wait that runs out of time is often for another one, which waits too.
  virtual std::optional<std::string> find_stopped() { return std::nullopt; }
  /// The longest sleep that still notices what no one rings for, given for how long the wait has found nothing.
  virtual Nanoseconds nap(Nanoseconds waited) const;
  /// For how long a wait looks again and again before it sleeps.
  virtual Nanoseconds spin_time() const { return 0; }

  std::mutex& mutex() { return mutex_; }
  Mailbox& mailbox() { return mailbox_; }

 private:
  friend class MailboxRequest;

  void send_ops(std::span<P2POp> ops);
  void check(const P2POp& op) const;
  /// Throws if the job has failed.
  void throw_if_failed(std::string_view context);
  /// The text of a wait that ran out of time.
  std::string timeout_text(const PostedReceive& receive, Nanoseconds waited, std::string_view context);
  std::string where(int world_rank);

  std::mutex mutex_;
  Mailbox mailbox_;
  std::atomic<Nanoseconds> next_check_{0};  ///< when to look for dead ranks again
};

}  // namespace ppctl
