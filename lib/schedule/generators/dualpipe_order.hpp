#pragma once

#include "schedule/generators/rank_order.hpp"

namespace ppctl {

/// Where a rank stands in a DualPipe: the V-shaped one is half of the bidirectional one.
struct DualPipeRank {
  int depth = 1;             ///< ranks from the outermost to the innermost: p for the V, p/2 in two directions
  int position = 0;          ///< this rank's, from the outermost
  int num_microbatches = 0;  ///< of each of the two flows. REQUIRES: at least 2 · depth
  int chunk[2] = {0, 1};     ///< the rank's chunk of flow 0 and of flow 1
  int first[2] = {0, 0};     ///< each flow's first microbatch
};

/// DualPipe's eight phases (DeepSeek-V3, arXiv 2412.19437; https://github.com/deepseek-ai/DualPipe) for one rank. Fused
/// pairs are OVERLAP_B_F composites.
RankSteps dualpipe_order(RankOrder order, const DualPipeRank& rank);

}  // namespace ppctl
