#pragma once

#include <cstdint>

#include "arch/model_spec.hpp"

namespace ppctl {

/// Which part of a model a stage holds.
struct StageRange {
  std::int64_t first_layer = 0;
  std::int64_t last_layer = 0;  ///< behind the last one
  bool has_embedding = false;
  bool has_head = false;

  static StageRange whole(const ModelSpec& spec) { return {0, spec.num_layers, true, true}; }
};

}  // namespace ppctl
