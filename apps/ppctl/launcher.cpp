#include "launcher.hpp"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/error.hpp"

namespace ppctl {
namespace {

std::optional<int> environment_number(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  const std::string_view text = value;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

Launch detect_launch() {
  // Open MPI's mpirun; MPICH's and Slurm's PMI-1 and PMI-2; Slurm's PMIx.
  constexpr const char* kVariables[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"PMI_RANK", "PMI_SIZE"},
                                           {"PMIX_RANK", "SLURM_STEP_NUM_TASKS"}};
  for (const auto& [rank_name, size_name] : kVariables) {
    const auto rank = environment_number(rank_name);
    const auto size = environment_number(size_name);
    if (rank && size && *size >= 1 && *rank >= 0 && *rank < *size) return {*rank, *size, true};
  }
  return {};
}

void check_num_ranks(const JobConfig& job, const Launch& launch, const std::string& command_line) {
  const int needed = job.world_size();
  if (launch.num_ranks == needed) return;
  const ParallelConfig& parallel = job.parallel;
  throw_error("the job has {} rank{} (pp {} x dp_replicate {} x dp_shard {}), but {} {} started. Type:\n    {}", needed,
              needed == 1 ? "" : "s", parallel.pp, parallel.dp_replicate, parallel.dp_shard, launch.num_ranks,
              launch.num_ranks == 1 ? "was" : "were",
              needed == 1 ? command_line : fmt::format("mpirun -n {} {}", needed, command_line));
}

}  // namespace ppctl
