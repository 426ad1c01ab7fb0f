#include "model/kernels/dropout.hpp"

#include <algorithm>
#include <vector>

#include "model/kernels/dispatch.hpp"
#include "model/kernels/simd.hpp"
#include "model/random.hpp"

namespace ppctl::kernels {

void dropout_factors(const Dropout& dropout, std::int64_t sample, std::int64_t first, std::int64_t n, float* out) {
  // Counter: block of four elements, sample, step, site.
  const auto threshold = static_cast<std::uint64_t>(dropout.probability * 4294967296.0);
  const auto kept = static_cast<float>(1.0 / (1.0 - dropout.probability));
  for (std::int64_t i = 0; i < n; i += 4) {
    const Philox::Block words =
        Philox::block({static_cast<std::uint32_t>((first + i) / 4), static_cast<std::uint32_t>(sample),
                       static_cast<std::uint32_t>(dropout.step), dropout.site},
                      dropout.seed);
    for (std::int64_t j = 0; j < std::min<std::int64_t>(4, n - i); ++j) out[i + j] = words[j] < threshold ? 0.0F : kept;
  }
}

void apply_dropout(const Dropout& dropout, const at::Tensor& x) {
  const std::int64_t samples = x.size(0);
  const std::int64_t per_sample = x.numel() / samples;
  std::vector<float> factors(per_sample);
  for_dtype(x.scalar_type(), [&]<class T>() {
    for (std::int64_t sample = 0; sample < samples; ++sample) {
      dropout_factors(dropout, dropout.first_sample + sample, 0, per_sample, factors.data());
      T* values = elements<T>(x) + sample * per_sample;
      for (std::int64_t i = 0; i < per_sample; ++i) {
        values[i] = static_cast<T>(static_cast<Accumulator<T>>(values[i]) * factors[i]);
      }
    }
  });
}

}  // namespace ppctl::kernels
