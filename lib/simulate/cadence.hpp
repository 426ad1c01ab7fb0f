#pragma once

#include "schedule/schedule.hpp"
#include "simulate/cost_model.hpp"

namespace ppctl {

/// How often training steps begin once the pipeline is in its rhythm.
struct Cadence {
  /// With the optimizer step behind a global norm: every rank waits for the last one.
  double barrier_ms = 0;
  /// With post-validation (Qi et al., arXiv 2401.10241, section 4): a rank takes its optimizer step when it and the
  /// ranks before it have ended their backwards, then goes on, so that the ranks' ends and starts stay skewed as the
  /// schedule has them. A step that turns out to need clipping costs its first forwards again; that is not counted.
  double post_validation_ms = 0;
  double ideal_ms = 0;  ///< work of the busiest rank, the optimizer included

  /// Fractions (time - ideal) / time.
  double bubble_barrier() const { return (barrier_ms - ideal_ms) / barrier_ms; }
  double bubble_post_validation() const { return (post_validation_ms - ideal_ms) / post_validation_ms; }
};

/// Simulates steps that follow each other. `optimizer_ms`: a rank's optimizer step. The exchange of the norm itself
/// costs nothing with the barrier, and a message from rank to rank with post-validation.
///
/// The whole state, which comes back to a rank before its first backward, is never waited for: a first backward follows
/// a forward through all ranks, which starts after the last of them has ended its step. Throws Error as simulate()
/// does.
Cadence step_cadence(const Schedule& schedule, const CostModel& costs, double optimizer_ms);

}  // namespace ppctl
