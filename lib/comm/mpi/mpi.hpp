#pragma once

#include <memory>

#include "comm/transport.hpp"

namespace ppctl {

/// Whether this process was started by mpirun or srun (looks at the environment; does not touch MPI).
bool launched_by_mpi();

/// The job's communicator over MPI. Ranks of one machine exchange messages through shared memory and sleep while they wait; others go
/// through MPI. COLLECTIVE over the whole job. MPI is finalised when it is destroyed. `timeout_s` bounds set-up.
std::unique_ptr<Communicator> connect_mpi(double timeout_s);

}  // namespace ppctl
