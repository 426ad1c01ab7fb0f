#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "schedule/generator.hpp"

namespace ppctl {

/// What the literature says a schedule comes to, for stages that all cost the same and communication that costs
/// nothing.
struct Theory {
  std::optional<double> bubble_wall_ms;  ///< idle time of the busiest rank from time 0 to the end
  std::optional<double>
      bubble_span_ms;    ///< the same between a rank's own first and last step, for the rank with the longest span
  bool at_most = false;  ///< the bubbles are bounds from above: the generator does better for some p
  std::string bubble_formula;      ///< as text: "(p-1)(F+B)"
  std::optional<int> peak_chunks;  ///< most activations of (stage, microbatch) alive on the worst rank
  std::string peak_formula;
};

/// The closed formulas, by the schedule's name; empty where there is none (auto, files) or its conditions do not hold.
///
/// p ranks, v chunks, m microbatches; F, I, W are `costs` of one chunk, B = I + W; `pair` is what an overlapped pair
/// costs. Sources: GPipe (arXiv 1811.06965), PipeDream-flush and interleaving (Megatron-LM, arXiv 2104.04473),
/// breadth-first (arXiv 2211.05953), zero bubble (arXiv 2401.10241), controllable memory: zb_v, v_half, v_min (arXiv
/// 2405.15362), DualPipe (DeepSeek-V3, arXiv 2412.19437).
std::optional<Theory> schedule_theory(std::string_view name, int pp, int chunks, int num_microbatches,
                                      const ChunkCosts& costs, double pair);

}  // namespace ppctl
