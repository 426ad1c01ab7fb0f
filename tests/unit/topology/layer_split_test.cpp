#include "topology/layer_split.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace ppctl {
namespace {

using Counts = std::vector<int>;

Placement loop(int pp, int chunks = 1) { return {PlacementKind::kLoop, pp, chunks}; }

TEST(UniformSplit, GivesTheLeftOverLayersToTheEarlierRanks) {
  EXPECT_EQ(split_layers_uniformly(8, loop(4)), (Counts{2, 2, 2, 2}));
  EXPECT_EQ(split_layers_uniformly(7, loop(2)), (Counts{4, 3}));
  EXPECT_EQ(split_layers_uniformly(8, loop(3)), (Counts{3, 3, 2}));
  EXPECT_EQ(split_layers_uniformly(40, loop(16)), (Counts{3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2}));
}

TEST(UniformSplit, KeepsRanksWithinOneLayerOfEachOtherInEveryPlacement) {
  for (const int pp : {2, 3, 4, 16}) {
    for (const auto& [kind, chunks] : {std::pair{PlacementKind::kLoop, 1},
                                       {PlacementKind::kLoop, 2},
                                       {PlacementKind::kLoop, 3},
                                       {PlacementKind::kV, 2}}) {
      const Placement placement(kind, pp, chunks);
      for (int layers = placement.num_stages(); layers < 3 * placement.num_stages() + 2; ++layers) {
        const Counts counts = split_layers_uniformly(layers, placement);
        EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), layers);
        const auto [least, most] = std::ranges::minmax(counts);
        EXPECT_LE(most - least, 1);
        Counts by_rank(static_cast<std::size_t>(pp), 0);
        for (int stage = 0; stage < placement.num_stages(); ++stage) {
          by_rank[static_cast<std::size_t>(placement.rank_of(StageId(stage), MicrobatchId(0), 1).value)] +=
              counts[static_cast<std::size_t>(stage)];
        }
        const auto [lightest, heaviest] = std::ranges::minmax(by_rank);
        EXPECT_LE(heaviest - lightest, 1) << layers << " layers, pp " << pp << ", chunks " << chunks;
      }
    }
  }
}

double slowest(const LayerCosts& costs, const Counts& counts) {
  double worst = 0.0;
  std::size_t layer = 0;
  for (std::size_t stage = 0; stage < counts.size(); ++stage) {
    double cost = (stage == 0 ? costs.embedding : 0.0) + (stage + 1 == counts.size() ? costs.head : 0.0);
    for (int i = 0; i < counts[stage]; ++i) cost += costs.layers[layer++];
    worst = std::max(worst, cost);
  }
  return worst;
}

/// The best of all splits, by trying them.
double best_by_trial(const LayerCosts& costs, int num_stages) {
  double best = 1e300;
  Counts counts;
  const std::function<void(int, int)> extend = [&](int stages, int layers) {
    if (stages == 1) {
      counts.push_back(layers);
      best = std::min(best, slowest(costs, counts));
      counts.pop_back();
      return;
    }
    for (int first = 1; first <= layers - (stages - 1); ++first) {
      counts.push_back(first);
      extend(stages - 1, layers - first);
      counts.pop_back();
    }
  };
  extend(num_stages, static_cast<int>(costs.layers.size()));
  return best;
}

TEST(SplitByCost, SparesTheStageWithTheHead) {
  EXPECT_EQ(split_layers_by_cost({std::vector<double>(8, 1.0), 0.0, 2.0}, 2), (Counts{5, 3}));
}

TEST(SplitByCost, IsAsGoodAsTheBestOfAllSplits) {
  std::uint64_t state = 1;
  const auto random = [&] {
    return static_cast<double>((state = state * 6364136223846793005ULL + 1442695040888963407ULL) >> 60);
  };
  for (int layers = 1; layers <= 9; ++layers) {
    for (int stages = 1; stages <= layers; ++stages) {
      LayerCosts costs{{}, random(), random()};
      for (int i = 0; i < layers; ++i) costs.layers.push_back(random());
      const Counts counts = split_layers_by_cost(costs, stages);
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), layers);
      EXPECT_TRUE(std::ranges::all_of(counts, [](int count) { return count >= 1; }));
      EXPECT_DOUBLE_EQ(slowest(costs, counts), best_by_trial(costs, stages));
    }
  }
}

}  // namespace
}  // namespace ppctl
