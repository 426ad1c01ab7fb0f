#pragma once

#include <string>
#include <utility>
#include <vector>

#include "arch/stage_range.hpp"

namespace ppctl::test {

/// Every way in which layers may recompute, the last one differing from layer to layer; applied to layer i of a stage.
struct RecomputeMode {
  std::string name;
  std::vector<RecomputeParts> of_layers;  ///< repeated

  StageRange on(StageRange range) const {
    range.activations.clear();
    for (std::int64_t i = 0; i < range.last_layer - range.first_layer; ++i) {
      range.activations.push_back({of_layers[static_cast<std::size_t>(i) % of_layers.size()], false});
    }
    return range;
  }
};

inline const std::vector<RecomputeMode>& recompute_modes() {
  static const RecomputeParts none;
  static const RecomputeParts whole{true, false, false};
  static const RecomputeParts attention{false, true, false};
  static const RecomputeParts feed_forward{false, false, true};
  static const std::vector<RecomputeMode> modes = {
      {"none", {none}},
      {"whole layers", {whole}},
      {"attention", {attention}},
      {"feed-forward", {feed_forward}},
      {"both parts", {{false, true, true}}},
      {"some layers", {whole, none, attention}},
  };
  return modes;
}

}  // namespace ppctl::test
