#pragma once

#include <string>
#include <vector>

#include "base/clock.hpp"
#include "comm/transport.hpp"

namespace ppctl {

/// Whether the halves of overlapped pairs gain from running at once. They do where an exchange can travel beside
/// compute: over links (`has_links`), to other machines, or on cores that no rank needs. Where the ranks of one machine
/// fill its cores, an exchange is a copy that they make themselves; two threads that take turns would then only chase
/// each other's working sets out of the caches, and the halves had better run one after the other. The bits are the
/// same.
///
/// COLLECTIVE; the same on all ranks, as it must be: the order of exchanges follows from it.
bool gains_from_overlap(Group& world, bool has_links, Deadline deadline);

/// The rule, of what each rank says of its machine (its identity and its number of cores).
bool gains_from_overlap(const std::vector<std::string>& machines, int num_cores);

}  // namespace ppctl
