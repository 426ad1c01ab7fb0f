#pragma once

#include "engine.hpp"

namespace ppctl {

/// `ppctl bench bubbles`: runs what the request's options ask for and prints it on rank 0. Under mpirun COLLECTIVE over
/// the job; by hand its ranks are threads. Returns the exit code. Throws Error.
int bench_bubbles(const EngineRequest& request);

}  // namespace ppctl
