#pragma once

#include "arch/layer_profile.hpp"
#include "arch/model_spec.hpp"
#include "model/tensors.hpp"

namespace ppctl {

/// The microbatch that a profile is measured with.
struct ProfileShape {
  at::ScalarType dtype = at::kFloat;
  std::int64_t samples = 1;
  std::int64_t sequence = 1;  ///< tokens a sample
  int repeats = 10;           ///< the median counts; one more is run first
};

/// Runs each part of a model on random numbers, forward, dx and dw apart, as a stage of its own. Layers with the same
/// operations and parameters are measured once. One thread; takes the memory of the largest part.
LayerProfile measure_layers(const ModelSpec& spec, const ProfileShape& shape);

}  // namespace ppctl
