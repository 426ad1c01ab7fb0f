#pragma once

#include <string>
#include <vector>

#include "runtime/overlap_bench.hpp"
#include "simulate/simulate.hpp"

namespace ppctl {

/// One way to run the benchmark: what the simulator says and what was measured.
struct OverlapRow {
  std::string variant;
  Simulation simulation;  ///< with its timeline
  Exposure simulated_exchange;
  Exposure simulated_p2p;
  OverlapMeasurement measured;
};

/// A line a variant. `title` says what was run.
std::string overlap_text(const std::string& title, const std::vector<OverlapRow>& rows);
/// A JSON array, one object a variant.
std::string overlap_json(const std::vector<OverlapRow>& rows);
/// The timelines of each variant, as a Chrome trace.
std::string overlap_trace(const std::vector<OverlapRow>& rows);

}  // namespace ppctl
