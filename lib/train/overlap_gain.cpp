#include "train/overlap_gain.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace ppctl {
namespace {

/// Different on every machine; the same in all containers of one.
std::string machine_identity() {
  std::string identity;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), identity);
  return identity;
}

}  // namespace

bool gains_from_overlap(const std::vector<std::string>& machines, int num_cores) {
  const bool one_machine = std::ranges::adjacent_find(machines, std::ranges::not_equal_to()) == machines.end();
  return !one_machine || static_cast<int>(machines.size()) < num_cores;
}

bool gains_from_overlap(Group& world, bool has_links, Deadline deadline) {
  if (has_links) return true;
  const int num_cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return gains_from_overlap(world.all_gather_strings(fmt::format("{} {}", machine_identity(), num_cores), deadline),
                            num_cores);
}

}  // namespace ppctl
