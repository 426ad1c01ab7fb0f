#pragma once

#include "config/job_config.hpp"

namespace ppctl {

/// Throws Error, with one line that names the key, where a job asks for what this version cannot train with.
void check_supported(const JobConfig& job);

}  // namespace ppctl
