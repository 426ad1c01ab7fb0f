#include "train/checkpoint_compatibility.hpp"

#include <fmt/ranges.h>

#include <utility>

#include "base/error.hpp"
#include "train/batches.hpp"

namespace ppctl {
namespace {

using Traits = std::vector<std::pair<std::string, std::string>>;

/// All that makes a model compute what it does, by the name that a message gives it.
Traits traits_of(const ModelSpec& spec) {
  const auto text = [](const auto& value) { return fmt::format("{}", value); };
  const RopeSpec& rope = spec.rope;
  return {{"model_type", spec.family},
          {"vocab_size", text(spec.vocab_size)},
          {"hidden_size", text(spec.hidden_size)},
          {"num_hidden_layers", text(spec.num_layers)},
          {"num_attention_heads", text(spec.num_heads)},
          {"num_key_value_heads", text(spec.num_kv_heads)},
          {"head_dim", text(spec.head_dim)},
          {"intermediate_size", text(spec.intermediate_size)},
          {"tie_word_embeddings", text(spec.tied_head)},
          {"attention_bias", text(spec.qkv_bias)},
          {"attention_output_bias", text(spec.attention_output_bias)},
          {"mlp_bias", text(spec.mlp_bias)},
          {"norm_eps", text(spec.norm_eps)},
          {"activation", text(static_cast<int>(spec.activation))},
          {"scale_attention", text(spec.scale_attention)},
          {"scale_attention_by_layer", text(spec.scale_attention_by_layer)},
          {"rope_type", text(static_cast<int>(rope.kind))},
          {"rope_theta", text(rope.theta)},
          {"rope_factor", text(rope.factor)},
          {"original_max_position_embeddings", text(rope.original_max_positions)},
          {"rope_attention_factor", text(rope.attention_factor)},
          {"rope_frequency_factors", fmt::format("{} {}", rope.low_freq_factor, rope.high_freq_factor)},
          {"rope_betas", fmt::format("{} {} {}", rope.beta_fast, rope.beta_slow, rope.truncate)},
          {"rope_short_factor", fmt::format("{}", fmt::join(rope.short_factor, " "))},
          {"rope_long_factor", fmt::format("{}", fmt::join(rope.long_factor, " "))}};
}

}  // namespace

void check_same_model(const ModelSpec& job, const ModelSpec& saved, const std::string& folder) {
  const Traits wanted = traits_of(job);
  const Traits found = traits_of(saved);
  std::vector<std::string> differences;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].second == found[i].second) continue;
    differences.push_back(
        fmt::format("{} is {} there and {} in the job", wanted[i].first, found[i].second, wanted[i].second));
  }
  if (differences.empty()) return;
  throw_error("{}: is of another model: {}", folder, fmt::join(differences, "; "));
}

std::vector<std::string> notes_on_resuming(const JobConfig& job, const CheckpointManifest& saved) {
  const CheckpointManifest now = manifest_of_job(job, saved.state);
  std::vector<std::string> notes;
  if (now.layout != saved.layout) notes.push_back(fmt::format("saved at {}; goes on at {}", saved.layout, now.layout));
  if (now.samples_per_step != saved.samples_per_step) {
    notes.push_back(fmt::format(
        "a step has {} samples now, {} before: no sample is left out or seen twice (sample {} is next), and steps, the "
        "learning rate and checkpoint names go on counting steps, from {}",
        now.samples_per_step, saved.samples_per_step, saved.state.samples, saved.state.step));
  }
  std::vector<std::string> data;
  const auto compare = [&](const char* key, const auto& before, const auto& after) {
    if (before != after) data.push_back(fmt::format("{} was {}, is {}", key, before, after));
  };
  compare("data.kind", saved.data_kind, now.data_kind);
  compare("data.path", saved.data_path, now.data_path);
  compare("data.sequence_length", saved.sequence_length, now.sequence_length);
  compare("data.order", saved.data_order, now.data_order);
  if (now.data_order == "shuffled") compare("seed", saved.seed, now.seed);
  if (!data.empty()) {
    notes.push_back(fmt::format("the data changes ({}): its sample {} is next, as {} were read before",
                                fmt::join(data, "; "), saved.state.samples, saved.state.samples));
  }
  return notes;
}

}  // namespace ppctl
