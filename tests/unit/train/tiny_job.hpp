#pragma once

#include <string>
#include <vector>

#include "config/load.hpp"
#include "support/train_run.hpp"

namespace ppctl::test {

/// A byte-level Llama of a few thousand parameters on `path`; keys as on the command line on top.
inline JobConfig tiny_job(const std::string& path, const std::vector<std::string>& sets = {}) {
  const std::string text = R"(name: tiny
steps: 4
model: {family: llama, vocab_size: 256, hidden_size: 16, intermediate_size: 24, num_hidden_layers: 4, num_attention_heads: 2,
        num_key_value_heads: 1, max_position_embeddings: 64, initializer_range: 0.1}
data: {kind: text, path: )" +
                           path + R"(, sequence_length: 8, order: shuffled}
batch: {global_size: 8, microbatch_size: 2}
parallel: {pp: 2}
pipeline: {schedule: 1f1b}
timeout_s: 60
)";
  return parse_config(text, "tiny.yaml", sets, schedule_rules()).job;
}

/// 2,000 bytes of text.
inline std::string some_text() {
  std::string text;
  for (int i = 0; text.size() < 2000; ++i) text += "line " + std::to_string(i * i) + " of the text\n";
  return text;
}

}  // namespace ppctl::test
