#pragma once

#include "model/aten.hpp"

#include <map>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "model/stage_module.hpp"

namespace ppctl {

/// A named workload of the benchmarks: a Llama of 8 layers, by its keys on Hugging Face.
struct Workload {
  std::map<std::string, std::string> model;
  std::int64_t sequence;
  int microbatches;
};

inline std::map<std::string, std::string> llama(int vocab, int hidden, int heads, int kv_heads, int intermediate) {
  return {{"vocab_size", std::to_string(vocab)},
          {"hidden_size", std::to_string(hidden)},
          {"num_hidden_layers", "8"},
          {"num_attention_heads", std::to_string(heads)},
          {"num_key_value_heads", std::to_string(kv_heads)},
          {"intermediate_size", std::to_string(intermediate)},
          {"rms_norm_eps", "1e-5"}};
}

inline Workload workload(const std::string& name) {
  if (name == "latency") return {llama(256, 64, 4, 4, 192), 32, 32};
  if (name == "small") return {llama(512, 256, 8, 4, 688), 128, 16};
  if (name == "medium") return {llama(2048, 512, 8, 8, 1376), 256, 8};
  throw_error("workload '{}' is not latency, small or medium", name);
}

/// Microbatches of one sample of random tokens each.
inline std::vector<Microbatch> random_microbatches(const Workload& work, std::int64_t vocab_size) {
  std::vector<Microbatch> microbatches(work.microbatches);
  for (int i = 0; i < work.microbatches; ++i) {
    microbatches[i].index = i;
    microbatches[i].loss_scale = 1.0 / static_cast<double>(work.microbatches * work.sequence);
    microbatches[i].kwargs["input_ids"] = at::randint(vocab_size, {1, work.sequence}, at::kLong);
    microbatches[i].kwargs["labels"] = at::randint(vocab_size, {1, work.sequence}, at::kLong);
  }
  return microbatches;
}

}  // namespace ppctl
