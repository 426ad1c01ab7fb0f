#pragma once

#include <string>

#include "config/job_config.hpp"

namespace ppctl {

/// What the launcher (mpirun, srun) says of this process, from its environment; no MPI is needed to know it.
struct Launch {
  int rank = 0;
  int num_ranks = 1;
  bool launched = false;  ///< false: started by hand, alone
};

Launch detect_launch();

/// Checks that as many ranks were started as the job has. Throws Error with both numbers and the line to type;
/// `command_line` is what the user typed after mpirun.
void check_num_ranks(const JobConfig& job, const Launch& launch, const std::string& command_line);

}  // namespace ppctl
