#pragma once

#include <functional>

#include "comm/transport.hpp"
#include "config/job_config.hpp"

namespace ppctl {

/// Runs `body` with this process's communicator: over MPI under mpirun or srun, in process for a job of one rank that
/// was started by hand. `body` lets no exception out. COLLECTIVE over the job.
void with_communicator(const JobConfig& job, const std::function<void(Communicator&)>& body);

/// Runs one rank's part of a command and returns its exit code. A rank that fails aborts the transport, so that the
/// others end at once. Who speaks: of an AgreedError rank 0; else the rank whose fault it is, and where it is
/// another's, ranks 0 and 1, of which at least one is alive to say so.
int run_rank(Communicator& communicator, const std::function<int()>& body);

}  // namespace ppctl
