#pragma once

#include <cstdint>
#include <span>

#include "train/samples.hpp"

namespace ppctl::parity {

/// Samples of which every third token, and the whole of every fourth sample, has no label.
class RaggedSamples final : public SampleSource {
 public:
  std::int64_t num_samples() const override { return 64; }
  std::int64_t sequence_length() const override { return 16; }
  void read(std::int64_t index, std::span<std::int64_t> input_ids, std::span<std::int64_t> labels) const override {
    for (std::size_t i = 0; i < input_ids.size(); ++i) {
      input_ids[i] = (index * 31 + static_cast<std::int64_t>(i * i) * 7) % 256;
      labels[i] =
          counts(index, i) ? (index * 31 + static_cast<std::int64_t>((i + 1) * (i + 1)) * 7) % 256 : kIgnoredLabel;
    }
  }
  std::int64_t num_labels(std::int64_t index) const override {
    std::int64_t labels = 0;
    for (std::size_t i = 0; i < 16; ++i) labels += counts(index, i) ? 1 : 0;
    return labels;
  }

 private:
  static bool counts(std::int64_t index, std::size_t i) {
    return index % 4 != 3 && (i + static_cast<std::size_t>(index)) % 3 != 0 &&
           i < 4 + static_cast<std::size_t>(index % 13);
  }
};

}  // namespace ppctl::parity
