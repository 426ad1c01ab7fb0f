#pragma once

#include <span>
#include <vector>

#include "topology/placement.hpp"

namespace ppctl {

/// Number of layers of each stage (0 .. num_stages - 1, in forward order), as even as whole layers allow. What is left
/// over goes to the stages in an order that keeps the ranks' sums apart by at most one layer and spares the last stage,
/// which also has the head: 7 layers on 2 ranks give 4 + 3, 40 on 16 give eight times 3 and eight times 2, whatever the
/// chunks.
///
/// REQUIRES: layers >= num_stages.
std::vector<int> split_layers_uniformly(int layers, const Placement& placement);

/// Relative cost of the parts of a model, in any one unit.
struct LayerCosts {
  std::vector<double> layers;  ///< one a layer
  double embedding = 0.0;      ///< in front of the first layer
  double head = 0.0;           ///< final norm, head and loss, behind the last layer
};

/// The split into `num_stages` runs of layers that makes the most expensive stage as cheap as possible (exact, by
/// dynamic programming in O(stages · layers²)); among equals the one whose earlier stages are shorter, since they hold
/// more activations. `most_layers`: that each stage may have; empty: any number. Throws Error where these are too few
/// together.
///
/// REQUIRES: 1 <= num_stages <= layers.
std::vector<int> split_layers_by_cost(const LayerCosts& costs, int num_stages,
                                      const std::vector<int>& most_layers = {});

}  // namespace ppctl
