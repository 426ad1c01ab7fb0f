#pragma once

#include <vector>

#include "topology/mesh.hpp"
#include "train/batches.hpp"
#include "train/records.hpp"
#include "train/step_exchange.hpp"

namespace ppctl {

/// What all ranks' parts of a step come to.
struct StepReport {
  std::vector<MicrobatchRecord> microbatches;  ///< by global number; step is not set
  double loss = 0.0;                           ///< weighted by labelled tokens, and the auxiliary loss
  double aux_loss = 0.0;                       ///< mean over microbatches
  std::int64_t num_labels = 0;
  double bubble = 0.0;
  double memory_mib = 0.0;
  double total_memory_mib = 0.0;
  double tensor_mib = 0.0;       ///< between steps, of the largest rank
  double tensor_peak_mib = 0.0;  ///< within the step, of the largest rank
  bool stop_requested = false;   ///< by any rank
  bool save_ready = true;        ///< on all ranks
};

/// Puts the parts of all ranks together, sums in the order of the microbatches. Throws Bug where a microbatch has not
/// exactly one loss.
StepReport combine_parts(const std::vector<StepPart>& parts, const Mesh& mesh, const BatchShape& shape);

inline double milliseconds(Nanoseconds span) { return static_cast<double>(span) / 1e6; }

/// Resident set of this process in MiB, from /proc; 0 where there is none.
double resident_mib();

}  // namespace ppctl
