#pragma once

#include "schedule/links.hpp"
#include "schedule/verifier/fault_list.hpp"

namespace ppctl {

/// Runs the schedule without time: every rank goes on until what it needs has not arrived, in turns, until all are at
/// their end or none can go on. That the order of turns does not matter follows from each rank's waits being for one
/// message each, which once arrived stays. REQUIRES: RankChecker found nothing; so every message is sent once and
/// received once.
///
/// Adds a fault for each rank of the cycle if the schedule deadlocks, or for a step that meets the wrong one on its
/// communicator.
void check_progress(const Schedule& schedule, const StageLinks& links, const VerifyOptions& options, FaultList& faults);

}  // namespace ppctl
