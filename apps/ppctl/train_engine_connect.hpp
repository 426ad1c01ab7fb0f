#pragma once

#include <functional>

#include "comm/transport.hpp"
#include "config/job_config.hpp"

namespace ppctl {

/// Runs `body` with this process's communicator: over MPI under mpirun or srun, in process for a job of one rank that
/// was started by hand. `body` lets no exception out. COLLECTIVE over the job.
void with_communicator(const JobConfig& job, const std::function<void(Communicator&)>& body);

}  // namespace ppctl
