#include "train_engine_connect.hpp"

#include "comm/inproc.hpp"
#include "comm/mpi/mpi.hpp"
#include "errors.hpp"
#include "train/agreement.hpp"

namespace ppctl {

void with_communicator(const JobConfig& job, const std::function<void(Communicator&)>& body) {
  if (!launched_by_mpi()) {
    run_inproc(1, body);
    return;
  }
  const std::unique_ptr<Communicator> communicator = connect_mpi(job.timeout_s);
  body(*communicator);
}

int run_rank(Communicator& communicator, const std::function<int()>& body) {
  Transport& transport = communicator.transport();
  const int rank = transport.rank();
  return report_errors(kExitFailed, /*silent=*/false, [&] {
    try {
      return body();
    } catch (const AgreedError&) {
      if (rank == 0) throw;
    } catch (const std::exception& error) {
      const bool elsewhere = transport.failure().has_value();
      if (!elsewhere) transport.abort(error.what());
      if (!elsewhere || rank <= 1) throw;
    }
    return kExitFailed;
  });
}

}  // namespace ppctl
