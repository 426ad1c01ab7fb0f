#include "base/error.hpp"
#include "comm/mpi/mpi.hpp"

namespace ppctl {

bool launched_by_mpi() { return false; }

std::unique_ptr<Communicator> connect_mpi(const MpiOptions&) {
  throw Error("this build has no MPI: configure with -DPPCTL_WITH_MPI=ON to run several ranks");
}

std::unique_ptr<Communicator> connect_mpi(double) { return connect_mpi(MpiOptions()); }

}  // namespace ppctl
