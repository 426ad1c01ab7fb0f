#include "comm/mpi/mpi.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <string_view>
#include <thread>

#include "base/error.hpp"
#include "base/log.hpp"
#include "comm/group.hpp"
#include "comm/mpi/mpi_transport.hpp"

namespace ppctl {
namespace {

/// Waits for a request of MPI without burning the core, and not for ever.
void wait_mpi(MPI_Request& request, Deadline deadline, const char* what) {
  for (int done = 0; done == 0;) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), what);
    if (done == 0 && deadline.passed())
      throw_error("{} did not complete in time: not all ranks have come this far", what);
    if (done == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

template <class T>
std::vector<T> all_gather(const T& mine, MPI_Comm communicator, Deadline deadline) {
  int size = 0;
  check_mpi(MPI_Comm_size(communicator, &size), "MPI_Comm_size");
  std::vector<T> all(static_cast<std::size_t>(size));
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallgather(&mine, sizeof(T), MPI_BYTE, all.data(), sizeof(T), MPI_BYTE, communicator, &request),
            "MPI_Iallgather");
  wait_mpi(request, deadline, "MPI_Iallgather");
  return all;
}

/// Initialises MPI for calls from several threads, one at a time.
void init_mpi() {
  int initialised = 0;
  MPI_Initialized(&initialised);
  PPCTL_CHECK(initialised == 0, "connect_mpi is called a second time");
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_SERIALIZED) throw_error("this MPI library does not support calls from several threads");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

/// Opens the shared memory of the ranks of this machine. All have it or none; COLLECTIVE over `machine`.
std::shared_ptr<SharedMemory> share_memory(MPI_Comm machine, int world_rank, std::size_t bytes, Deadline deadline) {
  std::shared_ptr<SharedMemory> memory;
  std::string fault;
  ArenaAddress address;
  try {
    memory = std::make_shared<SharedMemory>(bytes, world_rank);
    address = memory->address();
  } catch (const Error& error) {
    fault = error.what();
  }
  const std::vector<ArenaAddress> addresses = all_gather(address, machine, deadline);
  int mine = 0;
  check_mpi(MPI_Comm_rank(machine, &mine), "MPI_Comm_rank");
  try {
    if (memory) memory->open_peers(addresses, mine);
  } catch (const Error& error) {
    fault = error.what();
  }
  const std::vector<int> works = all_gather(fault.empty() ? 1 : 0, machine, deadline);
  if (std::count(works.begin(), works.end(), 0) == 0) return memory;
  if (!fault.empty())
    log_warn("rank {}: {}; the ranks of this machine exchange messages through MPI, which is slower", world_rank,
             fault);
  return nullptr;
}

bool wants_mpi_only() {
  const char* transport = std::getenv("PPCTL_TRANSPORT");
  if (transport == nullptr || std::string_view(transport) == "shared") return false;
  if (std::string_view(transport) == "mpi") return true;
  throw_error("PPCTL_TRANSPORT is '{}'; it can be 'shared' or 'mpi'", transport);
}

class MpiCommunicator : public Communicator {
 public:
  MpiCommunicator(const MpiOptions& options, bool messages_through_mpi)
      : timeout_s_(options.timeout_s), exceptions_(std::uncaught_exceptions()) {
    const Deadline deadline = Deadline::after_seconds(options.timeout_s);
    MpiNeighbourhood place;
    place.messages_through_mpi = messages_through_mpi;
    check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &place.rank), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &place.size), "MPI_Comm_size");
    MPI_Comm machine = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, place.rank, MPI_INFO_NULL, &machine),
              "MPI_Comm_split_type");
    place.local_ranks = all_gather(place.rank, machine, deadline);
    place.memory = share_memory(machine, place.rank, options.arena_bytes, deadline);
    check_mpi(MPI_Comm_free(&machine), "MPI_Comm_free");
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &messages_), "MPI_Comm_dup");
    transport_ = std::make_unique<MpiTransport>(std::move(place), messages_, options.piece_bytes);
    // From here on every rank can be reached.
    all_gather(1, MPI_COMM_WORLD, deadline);
  }

  ~MpiCommunicator() override {
    const bool orderly = std::uncaught_exceptions() == exceptions_ && !transport_->failed() && part();
    transport_.reset();
    if (!orderly) return;
    MPI_Comm_free(&messages_);
    MPI_Finalize();
  }

  Transport& transport() override { return *transport_; }
  std::unique_ptr<Group> group(std::span<const int> world_ranks, const std::string& name) override {
    return make_group(*transport_, world_ranks, name);
  }

 private:
  /// Meets the other ranks for the last time. Returns whether all came.
  bool part() {
    try {
      const Deadline deadline = Deadline::after_seconds(timeout_s_);
      std::vector<int> all(static_cast<std::size_t>(transport_->size()));
      std::iota(all.begin(), all.end(), 0);
      group(all, "end of the job")->barrier(deadline);
      while (!transport_->flushed()) {
        if (deadline.passed()) throw_error("messages to other ranks are still under way");
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
      transport_->leave();
      return true;
    } catch (const std::exception& error) {
      log_error("rank {} could not end together with the others: {}", transport_->rank(), error.what());
      return false;
    }
  }

  double timeout_s_;
  int exceptions_;
  MPI_Comm messages_ = MPI_COMM_NULL;
  std::unique_ptr<MpiTransport> transport_;
};

}  // namespace

bool launched_by_mpi() {
  // Open MPI's mpirun, srun with PMIx, and other launchers with PMI.
  constexpr std::array kVariables{"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
  return std::any_of(kVariables.begin(), kVariables.end(),
                     [](const char* name) { return std::getenv(name) != nullptr; });
}

std::unique_ptr<Communicator> connect_mpi(const MpiOptions& options) {
  const bool messages_through_mpi = options.messages_through_mpi || wants_mpi_only();
  init_mpi();
  return std::make_unique<MpiCommunicator>(options, messages_through_mpi);
}

std::unique_ptr<Communicator> connect_mpi(double timeout_s) {
  MpiOptions options;
  options.timeout_s = timeout_s;
  return connect_mpi(options);
}

}  // namespace ppctl
