#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "arch/model_spec.hpp"
#include "model/tensors.hpp"

namespace ppctl {

/// Tables of cos and sin for rotary position embedding, shared by all layers of a stage. Thread-safe.
///
/// Kinds: default (Su et al., RoFormer), linear, dynamic (NTK-aware, its base from the length of the sequence at hand),
/// llama3, yarn (Peng et al., 2023), longrope (Ding et al., 2024). Frequencies are computed as transformers does, in
/// float32 from a double base.
class RotaryEmbedding {
 public:
  RotaryEmbedding(const RopeSpec& spec, std::int64_t head_dim);

  struct Tables {
    at::Tensor cos;  ///< float32 [length, head_dim / 2], attention_factor included
    at::Tensor sin;
  };
  /// Tables of at least `length` positions. Where the kind depends on the length, they are those of exactly this
  /// length.
  std::shared_ptr<const Tables> tables(std::int64_t length) const;
  /// One frequency for each pair of dims, in radians a position, for sequences of `length`.
  std::vector<float> frequencies(std::int64_t length) const;

 private:
  std::vector<float> yarn_frequencies() const;
  std::vector<float> llama3_frequencies() const;
  bool depends_on_length() const;

  RopeSpec spec_;
  std::int64_t head_dim_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Tables> tables_;
};

}  // namespace ppctl
