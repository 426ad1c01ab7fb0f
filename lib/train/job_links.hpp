#pragma once

#include <memory>

#include "comm/transport.hpp"
#include "config/job_config.hpp"

namespace ppctl {

/// `below` with the links that a job asks for (its section `link`); null where it asks for none. `below` must outlive
/// it, and all ranks must be on one machine.
std::unique_ptr<Communicator> emulate_job_links(Communicator& below, const LinkConfig& link);

}  // namespace ppctl
