#pragma once

namespace ppctl {

/// Lets this process run on every core it may use, whatever core mpirun bound it to: for a rank that computes with
/// several threads. Returns the number of cores. (`mpirun --bind-to none` has the same effect.)
int widen_affinity();

}  // namespace ppctl
