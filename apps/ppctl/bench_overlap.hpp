#pragma once

#include "engine.hpp"

namespace ppctl {

/// ppctl bench overlap. Gives the exit code.
int bench_overlap(const EngineRequest& request);

}  // namespace ppctl
