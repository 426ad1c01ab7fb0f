#include "train_engine_connect.hpp"

#include "comm/inproc.hpp"
#include "comm/mpi/mpi.hpp"

namespace ppctl {

void with_communicator(const JobConfig& job, const std::function<void(Communicator&)>& body) {
  if (!launched_by_mpi()) {
    run_inproc(1, body);
    return;
  }
  const std::unique_ptr<Communicator> communicator = connect_mpi(job.timeout_s);
  body(*communicator);
}

}  // namespace ppctl
