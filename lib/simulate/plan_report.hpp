#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedule/schedule.hpp"
#include "simulate/cadence.hpp"
#include "simulate/memory_report.hpp"
#include "simulate/simulate.hpp"
#include "simulate/theory.hpp"
#include "trace/html_report.hpp"
#include "trace/text_grid.hpp"

namespace ppctl {

/// What `ppctl plan` knows of one schedule.
struct PlanReport {
  std::string schedule;
  std::string placement;  ///< "loop", "V", "bidirectional"
  int pp = 1;
  int chunks = 1;
  int num_microbatches = 0;
  std::vector<std::string> passes;     ///< what lowered it, in order
  std::optional<Theory> theory;        ///< where a formula exists and stages cost the same
  std::optional<MemoryReport> memory;  ///< where the caller knows the model
  std::optional<Cadence> cadence;      ///< where the caller asked for consecutive steps
  std::string notes;                   ///< lines about where costs come from, or why they are not known
  Simulation simulation;               ///< with its timeline
};

/// Simulates `schedule` (lowered or compute steps only) and puts the closed formulas beside it. `timeline` false leaves
/// out the grid, the SVG and the trace, and the memory that they take: for plans of millions of steps. Throws Error as
/// simulate() does.
PlanReport make_plan_report(const Schedule& schedule, const CostModel& costs, bool timeline = true);

/// The summary, a line a rank (peak, idle by cause), and the grid where the report has a timeline.
std::string plan_text(const PlanReport& report, const TextGridOptions& grid = {});

/// One JSON object: schedule, placement, pp, chunks, microbatches, passes, wall_ms, span_ms, ideal_ms, bubble_wall and
/// bubble_span (fractions: (time - ideal) / time), peak_chunks and peak_bytes (by rank), idle (by rank and cause),
/// steps, p2p, memory (by rank, in bytes, or null), theory (or null), cadence (or null).
std::string plan_json(const PlanReport& report);

/// The parts of an HTML page (render_html of trace/html_report.hpp) about this plan.
std::vector<HtmlTable> plan_tables(const PlanReport& report);
/// A whole page that needs no network.
std::string plan_html(const PlanReport& report);

}  // namespace ppctl
