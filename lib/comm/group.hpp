#pragma once

#include <memory>
#include <span>
#include <string>

#include "comm/transport.hpp"

namespace ppctl {

/// Collectives made of point-to-point messages: every backend without collectives of its own, and every decorator,
/// makes its groups with this. The transport must outlive the group. COLLECTIVE, as Communicator::group, but without
/// communication.
///
/// Everything is exchanged directly (each rank sends to each other), so a result never depends on an order of arrival.
/// A request of a collective makes progress when it is tested or waited for; its input may not change before.
/// Collectives of one group may overlap in time, but all ranks start them in the same order.
std::unique_ptr<Group> make_group(Transport& transport, std::span<const int> world_ranks, const std::string& name);

}  // namespace ppctl
