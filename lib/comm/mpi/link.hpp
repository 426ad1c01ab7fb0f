#pragma once

#include <mpi.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "comm/buffer_pool.hpp"
#include "comm/mailbox.hpp"
#include "comm/transport.hpp"

namespace ppctl {

/// Throws Error if `code` is not MPI_SUCCESS; `what` names the call.
void check_mpi(int code, const char* what);

/// Messages between ranks through MPI. Tags of 64 bits travel in a header, since MPI's are shorter; all messages use
/// one MPI tag, so those of a sender stay in order. Not synchronised: one thread at a time calls into it.
class MpiLink {
 public:
  using Deliver = std::function<void(int sender, std::int64_t tag, Payload payload)>;

  /// `communicator` is not used for anything else and must outlive the link.
  MpiLink(MPI_Comm communicator, std::size_t piece_bytes);

  /// The header and the bytes, copied. May be called without the lock.
  std::shared_ptr<std::byte> pack(std::int64_t tag, std::span<const ConstBytes> bytes, std::size_t size);
  /// Starts to send what `pack` made.
  void send(int peer, const std::shared_ptr<std::byte>& packed, std::size_t size);
  /// Makes progress and delivers what has come. Returns whether anything moved.
  bool poll(const Deliver& deliver);
  /// Whether there are transfers that need further polls.
  bool busy() const { return !sends_.empty() || !receives_.empty(); }

 private:
  struct Header {
    std::int64_t tag = 0;
    std::uint64_t size = 0;
  };
  struct Send {
    MPI_Request request = MPI_REQUEST_NULL;
    std::shared_ptr<std::byte> bytes;
  };
  struct Receive {
    MPI_Request request = MPI_REQUEST_NULL;
    std::shared_ptr<std::byte> bytes;  ///< with the header in front
    bool last = true;                  ///< the message is complete with it
  };
  /// A message of several pieces that is arriving.
  struct Assembly {
    std::shared_ptr<std::byte> bytes;
    std::uint64_t size = 0;
    std::uint64_t done = 0;  ///< of which receives were started
  };

  void send_piece(int peer, const std::shared_ptr<std::byte>& packed, const std::byte* begin, std::size_t size);
  void start_receive(int sender, MPI_Message message, std::size_t size);
  bool finish_receives(int sender, const Deliver& deliver);

  MPI_Comm communicator_;
  std::size_t piece_bytes_;
  BufferPool pool_;
  std::deque<Send> sends_;
  std::vector<std::deque<Receive>> of_sender_;  ///< receives that were started, in order
  std::vector<Assembly> assemblies_;            ///< by sender
  std::vector<int> receives_;                   ///< senders with receives that were started
};

}  // namespace ppctl
