#pragma once

#include <memory>

#include "config/job_config.hpp"
#include "runtime/activation_swap.hpp"

namespace ppctl {

/// The swap of one rank to the tier that a job names. Throws Error where that cannot be opened.
std::unique_ptr<ActivationSwap> make_activation_swap(const SwapConfig& config, double timeout_s);

}  // namespace ppctl
