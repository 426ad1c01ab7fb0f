#pragma once

#include "engine.hpp"

namespace ppctl {

/// `ppctl bench bubbles`: runs what the request's options ask for and prints it on rank 0. Under mpirun COLLECTIVE over
/// the job; by hand its ranks are threads. Returns the exit code. Throws Error.
int bench_bubbles(const EngineRequest& request);

/// `ppctl bench --profile FILE`: measures the layers of the request's job on one thread of this process (or as many as
/// the job has), writes the file and prints what it says. Returns the exit code. Throws Error.
int bench_profile(const EngineRequest& request);

}  // namespace ppctl
