#include "model/layers/rotary_embedding.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ppctl {
namespace {

/// theta^(-2 i / dim) for each pair i.
std::vector<float> plain_frequencies(double theta, std::int64_t dim) {
  std::vector<float> result(dim / 2);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    result[i] = 1.0F / std::pow(static_cast<float>(theta), exponent);
  }
  return result;
}

/// The dim at which `rotations` full turns fit into the pre-training length (YaRN, eq. 17).
double correction_dim(const RopeSpec& spec, double rotations, std::int64_t dim) {
  const double turns = static_cast<double>(spec.original_max_positions) / (rotations * 2.0 * std::numbers::pi);
  return static_cast<double>(dim) * std::log(turns) / (2.0 * std::log(spec.theta));
}

}  // namespace

RotaryEmbedding::RotaryEmbedding(const RopeSpec& spec, std::int64_t head_dim) : spec_(spec), head_dim_(head_dim) {}

bool RotaryEmbedding::depends_on_length() const {
  return spec_.kind == RopeSpec::Kind::kDynamic || spec_.kind == RopeSpec::Kind::kLongRope;
}

std::vector<float> RotaryEmbedding::llama3_frequencies() const {
  std::vector<float> result = plain_frequencies(spec_.theta, head_dim_);
  const double original = static_cast<double>(spec_.original_max_positions);
  for (float& frequency : result) {
    const double wavelength = 2.0 * std::numbers::pi / static_cast<double>(frequency);
    if (wavelength < original / spec_.high_freq_factor) continue;
    if (wavelength > original / spec_.low_freq_factor) {
      frequency = static_cast<float>(static_cast<double>(frequency) / spec_.factor);
      continue;
    }
    const double smooth =
        (original / wavelength - spec_.low_freq_factor) / (spec_.high_freq_factor - spec_.low_freq_factor);
    frequency = static_cast<float>((1.0 - smooth) * static_cast<double>(frequency) / spec_.factor +
                                   smooth * static_cast<double>(frequency));
  }
  return result;
}

std::vector<float> RotaryEmbedding::yarn_frequencies() const {
  double low = correction_dim(spec_, spec_.beta_fast, head_dim_);
  double high = correction_dim(spec_, spec_.beta_slow, head_dim_);
  if (spec_.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim_ - 1));
  if (low == high) high += 0.001;
  std::vector<float> result = plain_frequencies(spec_.theta, head_dim_);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    const double extrapolated = static_cast<double>(result[i]);
    result[i] = static_cast<float>(extrapolated / spec_.factor * ramp + extrapolated * (1.0 - ramp));
  }
  return result;
}

std::vector<float> RotaryEmbedding::frequencies(std::int64_t length) const {
  std::vector<float> result = plain_frequencies(spec_.theta, head_dim_);
  switch (spec_.kind) {
    case RopeSpec::Kind::kDefault:
      return result;
    case RopeSpec::Kind::kLinear:
      for (float& frequency : result) frequency /= static_cast<float>(spec_.factor);
      return result;
    case RopeSpec::Kind::kDynamic: {
      if (length <= spec_.max_positions) return result;
      const double stretch =
          spec_.factor * static_cast<double>(length) / static_cast<double>(spec_.max_positions) - (spec_.factor - 1.0);
      const double dim = static_cast<double>(head_dim_);
      return plain_frequencies(spec_.theta * std::pow(stretch, dim / (dim - 2.0)), head_dim_);
    }
    case RopeSpec::Kind::kLlama3:
      return llama3_frequencies();
    case RopeSpec::Kind::kYarn:
      return yarn_frequencies();
    case RopeSpec::Kind::kLongRope: {
      const std::vector<double>& factors =
          length > spec_.original_max_positions ? spec_.long_factor : spec_.short_factor;
      for (std::size_t i = 0; i < result.size(); ++i) result[i] /= static_cast<float>(factors[i]);
      return result;
    }
  }
  return result;
}

std::shared_ptr<const RotaryEmbedding::Tables> RotaryEmbedding::tables(std::int64_t length) const {
  const std::lock_guard lock(mutex_);
  if (tables_ != nullptr && (depends_on_length() ? tables_->cos.size(0) == length : tables_->cos.size(0) >= length)) {
    return tables_;
  }
  const std::vector<float> frequency = frequencies(length);
  const std::int64_t half = head_dim_ / 2;
  auto tables = std::make_shared<Tables>(Tables{at::empty({length, half}), at::empty({length, half})});
  auto* cos = tables->cos.mutable_data_ptr<float>();
  auto* sin = tables->sin.mutable_data_ptr<float>();
  const auto scale = static_cast<float>(spec_.attention_factor);
  for (std::int64_t position = 0; position < length; ++position) {
    for (std::int64_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(position) * frequency[i];
      cos[position * half + i] = std::cos(angle) * scale;
      sin[position * half + i] = std::sin(angle) * scale;
    }
  }
  tables_ = tables;
  return tables;
}

}  // namespace ppctl
