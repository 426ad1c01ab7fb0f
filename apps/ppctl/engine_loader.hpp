#pragma once

#include "engine.hpp"

namespace ppctl {

/// Loads the engine, which lies in ../lib beside the running program's folder, and runs the request in it. Throws Error
/// where it is missing or cannot be loaded. Returns the exit code.
int run_engine(const EngineRequest& request);

}  // namespace ppctl
