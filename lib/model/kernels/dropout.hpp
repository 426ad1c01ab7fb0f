#pragma once

#include "model/aten.hpp"

#include <cstdint>

namespace ppctl::kernels {

/// Which random numbers one use of dropout draws: they depend on seed, step, sample, site and the element's place in
/// its sample, so that every pipeline and microbatch size drops the same elements and a backward needs no mask.
struct Dropout {
  double probability = 0.0;
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::uint32_t site = 0;         ///< one a place in the model: layer * kDropoutSitesPerLayer + place
  std::int64_t first_sample = 0;  ///< global number of the first sample of the tensor

  bool active() const { return probability > 0.0; }
};

/// out[i] = 0 or 1 / (1 - p) for elements first .. first + n - 1 of a sample. REQUIRES: first is a multiple of 4.
void dropout_factors(const Dropout& dropout, std::int64_t sample, std::int64_t first, std::int64_t n, float* out);

/// Multiplies `x` [samples, ...] by its factors, in place: forward and backward alike.
void apply_dropout(const Dropout& dropout, const at::Tensor& x);

}  // namespace ppctl::kernels
