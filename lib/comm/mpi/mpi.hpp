#pragma once

#include <cstddef>
#include <memory>

#include "comm/affinity.hpp"  // what a launched rank may need to undo
#include "comm/transport.hpp"

namespace ppctl {

/// Whether this process was started by mpirun or srun (looks at the environment; does not touch MPI).
bool launched_by_mpi();

struct MpiOptions {
  double timeout_s = 60;  ///< bounds set-up and the last barrier
  /// Carry all messages through MPI, also between ranks of one machine: slower, and how the path between machines is
  /// tested on one. The environment variable PPCTL_TRANSPORT=mpi sets it too.
  bool messages_through_mpi = false;
  /// A rank's shared memory for messages that were sent and not yet received, reserved, not occupied. Halved until the
  /// kernel agrees.
  std::size_t arena_bytes = std::size_t{64} << 30;
  /// Longer messages go through MPI in pieces, since MPI counts in int.
  std::size_t piece_bytes = std::size_t{1} << 30;
};

/// The job's communicator over MPI. COLLECTIVE over the whole job, once in a process.
///
/// Ranks of one machine exchange messages through shared memory and sleep while they wait; others go through MPI. If a
/// rank of the machine dies, every wait of its neighbours fails within about 0.1 s and says which rank died in which
/// step; Transport::failure() says it to a process that does not wait, e.g. on the SIGTERM that mpirun sends to
/// survivors after a second. abort() reaches all ranks.
///
/// Destroying it is COLLECTIVE too: ranks meet once more, and MPI is finalised. After a failure, or while an exception
/// unwinds, MPI is not finalised, since that may hang; the process must then exit with a status other than 0, and
/// mpirun ends what is left.
std::unique_ptr<Communicator> connect_mpi(const MpiOptions& options);
std::unique_ptr<Communicator> connect_mpi(double timeout_s);

}  // namespace ppctl
