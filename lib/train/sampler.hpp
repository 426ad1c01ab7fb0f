#pragma once

#include <string>

#include "comm/transport.hpp"
#include "config/job_config.hpp"
#include "runtime/executor.hpp"
#include "train/rank_model.hpp"

namespace ppctl {

/// What a continuation is made with.
struct SampleRequest {
  SampleConfig config;
  std::uint64_t seed = 1;        ///< of the draws: the same text for every pp, v and schedule
  std::int64_t max_context = 0;  ///< tokens that the model sees of what was written so far
  double timeout_s = 300;
};

/// Continues the prompt, byte by byte, through the pipeline; greedy at temperature 0. Returns the prompt and what
/// follows. COLLECTIVE over `pipeline`, the ranks of `ranks`; every rank gets the text.
std::string sample_text(const SampleRequest& request, const RankModel& model, const Placement& placement,
                        const PipelineRanks& ranks, Group& pipeline);

/// Draws from the `top_k` most likely of `logits` (0: all) at `temperature` (0: the most likely, the first of equals),
/// with `uniform` in [0, 1).
int draw_token(std::span<const float> logits, double temperature, int top_k, double uniform);

}  // namespace ppctl
