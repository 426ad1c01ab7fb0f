#include <cmath>
#include <numbers>

#include "base/error.hpp"
#include "model/family.hpp"
#include "model/kernels/dispatch.hpp"
#include "model/random.hpp"

namespace ppctl {
namespace {

/// Normal numbers by Box-Muller; element i depends on key and i alone.
template <class T>
void fill_normal(T* values, std::int64_t count, std::uint64_t key, double stddev) {
  constexpr double kUnit = 1.0 / 4294967296.0;
  for (std::int64_t i = 0; i < count; i += 4) {
    const auto block = static_cast<std::uint64_t>(i / 4);
    const Philox::Block words =
        Philox::block({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}, key);
    double normal[4];
    for (int pair = 0; pair < 2; ++pair) {
      const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(words[2 * pair]) + 0.5) * kUnit));
      const double angle = 2.0 * std::numbers::pi * static_cast<double>(words[2 * pair + 1]) * kUnit;
      normal[2 * pair] = radius * std::cos(angle) * stddev;
      normal[2 * pair + 1] = radius * std::sin(angle) * stddev;
    }
    for (std::int64_t j = 0; j < std::min<std::int64_t>(4, count - i); ++j) values[i + j] = static_cast<T>(normal[j]);
  }
}

void initialize_parameter(const Parameter& parameter, const at::Tensor& data, std::uint64_t seed) {
  switch (parameter.init.kind) {
    case ParameterInit::Kind::kZeros:
      data.zero_();
      return;
    case ParameterInit::Kind::kOnes:
      data.fill_(1);
      return;
    case ParameterInit::Kind::kNormal: {
      const std::string& name = parameter.tied_to.empty() ? parameter.name : parameter.tied_to;
      const std::uint64_t key = stable_hash(name) + seed * 0x9E3779B97F4A7C15;
      for_dtype(data.scalar_type(),
                [&]<class T>() { fill_normal(elements<T>(data), parameter.numel, key, parameter.init.stddev); });
      return;
    }
  }
}

}  // namespace

void initialize(StageModule& stage, std::uint64_t seed) {
  for (const ParameterGroup* group : stage.parameter_groups()) initialize(*group, group->flat_data(), seed);
}

void initialize(const ParameterGroup& group, const at::Tensor& flat, std::uint64_t seed) {
  // Padding between parameters takes part in whole-buffer arithmetic: it must be finite.
  flat.zero_();
  for (std::size_t i = 0; i < group.parameters().size(); ++i) {
    initialize_parameter(group.parameters()[i], group.view(flat, static_cast<int>(i)), seed);
  }
}

}  // namespace ppctl
