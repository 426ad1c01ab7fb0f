#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/family.hpp"

namespace ppctl {

/// A folder as Hugging Face's save_pretrained writes it: config.json with model.safetensors, or with
/// model.safetensors.index.json and the files it names.

/// The folder's weights, mapped. Tensors are found under their full name, or without the "model." or "transformer."
/// that checkpoints of the bare model leave out.
class HfWeights {
 public:
  /// Opens index and files and checks that together they hold all tensors of `spec` with their shapes and float dtypes
  /// (F32, BF16, F16, F64), and no others; a tied head may be missing or there. Throws Error that names every tensor in
  /// question (the first ten of them).
  HfWeights(const std::string& folder, const ModelSpec& spec);
  ~HfWeights();
  HfWeights(HfWeights&&) noexcept;

  /// Fills the values of a stage's parameters, converting dtypes (rounding to nearest even). Touches only their own
  /// pages.
  void load(StageModule& stage) const;
  /// The same for one group, into `flat`: a buffer with the group's layout, of any float dtype.
  void load(const ParameterGroup& group, const at::Tensor& flat) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What a rank contributes to a folder: its stages' parameters, under their names, tied ones left out.
struct HfTensor {
  std::string name;
  at::Tensor data;  ///< contiguous; float32, bfloat16, float16 or float64
};
std::vector<HfTensor> hf_tensors(StageModule& stage);

/// "model.safetensors" for one rank, else "model-00002-of-00004.safetensors" (ranks count from 0, files from 1).
std::string hf_shard_name(int shard, int num_shards);
/// Writes one rank's file into an existing folder. Returns what the index needs.
struct HfShard {
  std::string file;
  std::vector<std::string> names;
  std::int64_t num_bytes = 0;
};
HfShard write_hf_shard(const std::string& folder, const std::vector<HfTensor>& tensors, int shard, int num_shards);
/// Writes config.json (the source's, unknown keys kept, with dtype as written), and the index where there are several
/// shards. Call once every shard is written.
void write_hf_index(const std::string& folder, const ModelSpec& spec, at::ScalarType dtype,
                    const std::vector<HfShard>& shards);

}  // namespace ppctl
