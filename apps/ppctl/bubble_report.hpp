#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/bubble_bench.hpp"
#include "simulate/simulate.hpp"
#include "simulate/theory.hpp"

namespace ppctl {

/// One schedule: what the literature says, what the simulator says, what was measured.
struct BubbleRow {
  std::string schedule;
  int pp = 1;
  int chunks = 1;
  int num_microbatches = 1;
  std::optional<Theory> theory;
  Simulation simulation;  ///< with its timeline
  BubbleMeasurement measured;
  std::string encoder;  ///< where an encoder in front of the stages runs: "just_in_time"; empty without one

  /// "1f1b", or with an encoder "1f1b/just_in_time".
  std::string name() const { return encoder.empty() ? schedule : schedule + "/" + encoder; }
  /// Bubbles of the theory as fractions of the time, as the others count them; nothing where there is no formula.
  std::optional<double> theory_wall() const;
  std::optional<double> theory_span() const;
};

/// A line a schedule, with encoders one more (step times, and how idle the ranks are together); then for each a line a
/// rank: idle by cause, simulated and measured.
std::string bubble_text(const std::vector<BubbleRow>& rows);
/// A JSON array, one object a schedule.
std::string bubble_json(const std::vector<BubbleRow>& rows);
/// Both timelines of each schedule, as a Chrome trace.
std::string bubble_trace(const std::vector<BubbleRow>& rows);

}  // namespace ppctl
