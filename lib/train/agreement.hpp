#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "comm/transport.hpp"

namespace ppctl {

/// An Error that every rank throws alike, so that one of them is enough to say it.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// Runs `work`, then exchanges what it returned, by rank. Where it threw on some rank, all ranks throw AgreedError with
/// what went wrong (a message that all ranks have is said once, others with their rank in front). So a part of set-up
/// that may fail on one rank alone (a file that is missing on one machine) neither hangs the others nor is said many
/// times. COLLECTIVE over `world`; `work` must not be.
std::vector<std::string> agree(Group& world, Deadline deadline, const std::function<std::string()>& work);

}  // namespace ppctl
