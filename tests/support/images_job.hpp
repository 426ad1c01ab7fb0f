#pragma once

#include <string>
#include <vector>

#include "config/load.hpp"
#include "job_schedule.hpp"
#include "support/temporary_folder.hpp"

namespace ppctl::test {

/// A LLaVA job with a vision tower of four used layers and a language model of eight, large enough that tensors of a
/// few bytes do not matter; one image a sample. `folder` gets the model's configuration.
inline JobConfig images_job(const TemporaryFolder& folder, const std::vector<std::string>& sets = {}) {
  folder.write("config.json", R"({"model_type": "llava", "image_token_index": 255, "vision_feature_layer": -2,
    "text_config": {"model_type": "llama", "vocab_size": 256, "hidden_size": 64, "intermediate_size": 160,
                    "num_hidden_layers": 8, "num_attention_heads": 4, "head_dim": 16, "num_key_value_heads": 2},
    "vision_config": {"model_type": "clip_vision_model", "hidden_size": 64, "intermediate_size": 192,
                      "num_hidden_layers": 5, "num_attention_heads": 4, "image_size": 28, "patch_size": 14}})");
  const std::string text = "name: images\nsteps: 3\nmodel: {from: " + folder.path() +
                           ", load_weights: false}\ndata: {kind: tokens, path: " PPCTL_SOURCE_DIR
                           "/tests/data/parity/llava-tiny/tokens.bin, pixels: " PPCTL_SOURCE_DIR
                           R"(/tests/data/parity/llava-tiny/pixels.bin, sequence_length: 32, order: sequential}
batch: {global_size: 16, microbatch_size: 2}
parallel: {pp: 4}
pipeline: {schedule: 1f1b}
timeout_s: 60
)";
  return parse_config(text, "images.yaml", sets, schedule_rules()).job;
}

}  // namespace ppctl::test
