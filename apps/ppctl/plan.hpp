#pragma once

#include "plan_inputs.hpp"

namespace ppctl {

/// `ppctl plan`: prints to standard output what the options ask for. Returns the exit code. Throws Error.
int plan(const PlanOptions& options);

}  // namespace ppctl
