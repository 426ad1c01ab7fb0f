#include "topology/layer_split.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.hpp"

namespace ppctl {

std::vector<int> split_layers_uniformly(int layers, const Placement& placement) {
  const int num_stages = placement.num_stages();
  PPCTL_CHECK(layers >= num_stages, "{} layers on {} stages", layers, num_stages);
  std::vector<int> counts(static_cast<std::size_t>(num_stages), layers / num_stages);
  std::vector<int> extra_of_rank(static_cast<std::size_t>(placement.pp()), 0);
  for (int left = layers % num_stages; left > 0; --left) {
    // The stage that is still without an extra layer and whose rank has fewest of them; the earliest of equals.
    int best = -1;
    for (int stage = 0; stage < num_stages; ++stage) {
      if (counts[static_cast<std::size_t>(stage)] > layers / num_stages) continue;
      const auto load = [&](int s) {
        const PipelineRank rank = placement.rank_of(StageId(s), MicrobatchId(0), 1);
        return extra_of_rank[static_cast<std::size_t>(rank.value)];
      };
      if (best < 0 || load(stage) < load(best)) best = stage;
    }
    ++counts[static_cast<std::size_t>(best)];
    ++extra_of_rank[static_cast<std::size_t>(placement.rank_of(StageId(best), MicrobatchId(0), 1).value)];
  }
  return counts;
}

std::vector<int> split_layers_by_cost(const LayerCosts& costs, int num_stages, const std::vector<int>& most_layers) {
  const int layers = static_cast<int>(costs.layers.size());
  PPCTL_CHECK(num_stages >= 1 && num_stages <= layers, "{} layers on {} stages", layers, num_stages);
  std::vector<double> sums(costs.layers.size() + 1, 0.0);
  std::partial_sum(costs.layers.begin(), costs.layers.end(), sums.begin() + 1);
  const auto index = [](int i) { return static_cast<std::size_t>(i); };
  // The cost of layers first .. end - 1 as a stage; infinite where it may not have so many.
  const double infinity = std::numeric_limits<double>::infinity();
  const auto stage_cost = [&](int stage, int first, int end) {
    if (!most_layers.empty() && end - first > most_layers[index(stage)]) return infinity;
    return sums[index(end)] - sums[index(first)] + (stage == 0 ? costs.embedding : 0.0) +
           (stage == num_stages - 1 ? costs.head : 0.0);
  };
  // slowest[s][f]: the least possible cost of the slowest of stages s .. num_stages - 1 when stage s begins at layer f.
  std::vector<std::vector<double>> slowest(index(num_stages), std::vector<double>(index(layers), infinity));
  std::vector<std::vector<int>> end_of(index(num_stages), std::vector<int>(index(layers), layers));
  for (int first = 0; first < layers; ++first) {
    slowest.back()[index(first)] = stage_cost(num_stages - 1, first, layers);
  }
  for (int stage = num_stages - 2; stage >= 0; --stage) {
    for (int first = stage; first < layers; ++first) {
      for (int end = first + 1; end <= layers - (num_stages - 1 - stage); ++end) {
        const double cost = std::max(stage_cost(stage, first, end), slowest[index(stage + 1)][index(end)]);
        if (cost < slowest[index(stage)][index(first)]) {
          slowest[index(stage)][index(first)] = cost;
          end_of[index(stage)][index(first)] = end;
        }
      }
    }
  }
  if (slowest[0][0] == infinity) throw_error("{} layers on {} stages are more than these may have", layers, num_stages);
  std::vector<int> counts;
  for (int stage = 0, first = 0; stage < num_stages; ++stage) {
    const int end = stage == num_stages - 1 ? layers : end_of[index(stage)][index(first)];
    counts.push_back(end - first);
    first = end;
  }
  return counts;
}

}  // namespace ppctl
