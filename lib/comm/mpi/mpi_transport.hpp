#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/mailbox_transport.hpp"
#include "comm/mpi/link.hpp"
#include "comm/mpi/shared_memory.hpp"

namespace ppctl {

/// Where the other ranks are.
struct MpiNeighbourhood {
  int rank = 0;
  int size = 1;
  std::vector<int> local_ranks;          ///< world ranks of this machine, by their index in shared memory
  std::shared_ptr<SharedMemory> memory;  ///< null if there is none
  bool messages_through_mpi = false;     ///< use shared memory for doorbells and status only
};

/// Shared memory to the ranks of this machine, MPI to the others. See connect_mpi.
class MpiTransport : public MailboxTransport {
 public:
  /// `communicator` must outlive it.
  MpiTransport(MpiNeighbourhood neighbourhood, MPI_Comm communicator, std::size_t piece_bytes);
  ~MpiTransport() override;

  int rank() const override { return place_.rank; }
  int size() const override { return place_.size; }

  /// Whether all that was given to MPI has left.
  bool flushed();
  /// Tells the ranks of this machine that this rank is about to end in order.
  void leave();
  /// Whether the job has failed as far as this rank knows.
  bool failed();

 protected:
  RankPanel* panel(int rank) override;
  void send(std::span<const int> peers, std::span<const std::int64_t> tags, std::span<const ConstBytes> bytes) override;
  void bring_in() override;
  void abort_remote(std::string_view reason) override;
  std::optional<std::string> find_dead() override;
  std::optional<std::string> find_stopped() override;
  Nanoseconds nap(Nanoseconds waited) const override;
  Nanoseconds spin_time() const override { return spin_time_; }

 private:
  bool poll_link();
  void send_through_mpi(int peer, std::int64_t tag, std::span<const ConstBytes> bytes);
  void progress(const std::stop_token& stop);

  MpiNeighbourhood place_;
  std::vector<int> index_of_;                 ///< of a world rank in shared memory; -1 for ranks of other machines
  std::unique_ptr<RankPanel> private_panel_;  ///< without shared memory
  bool uses_link_ = false;                    ///< some peers are reached through MPI
  MpiLink link_;
  Nanoseconds spin_time_ = 0;
  std::jthread progress_;  ///< moves messages through MPI while this rank computes
};

}  // namespace ppctl
