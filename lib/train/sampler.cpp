#include "train/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "model/random.hpp"
#include "schedule/pass.hpp"

namespace ppctl {
namespace {

constexpr std::int64_t kNumBytes = 256;
/// Apart from the training executor's, which may still have its edges.
constexpr int kTagSpace = 1;

/// One microbatch through all stages and back; the executor runs its forward steps alone.
Schedule one_microbatch(const Placement& placement) {
  Schedule schedule;
  schedule.name = "sample";
  schedule.placement = placement;
  schedule.num_microbatches = 1;
  schedule.ranks.resize(static_cast<std::size_t>(placement.pp()));
  const auto add = [&](MetaStepType type, int stage) {
    const PipelineRank rank = placement.rank_of(StageId(stage), MicrobatchId(0), 1);
    schedule.ranks[static_cast<std::size_t>(rank.value)].steps.emplace_back(type, StageId(stage), MicrobatchId(0));
  };
  for (int stage = 0; stage < placement.num_stages(); ++stage) add(MetaStepType::FORWARD, stage);
  for (int stage = placement.num_stages() - 1; stage >= 0; --stage) add(MetaStepType::BACKWARD, stage);
  lower_schedule(schedule, {});
  return schedule;
}

double uniform_at(std::uint64_t seed, std::int64_t position) {
  const auto at = static_cast<std::uint64_t>(position);
  const Philox::Block block = Philox::block(
      {static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32), 0, 0}, seed ^ stable_hash("sample"));
  return static_cast<double>(block[0]) / 4294967296.0;
}

Microbatch microbatch_of(const std::vector<std::int64_t>& context) {
  Microbatch microbatch;
  microbatch.training = false;
  microbatch.args = {at::tensor(context, at::kLong).view({1, static_cast<std::int64_t>(context.size())})};
  return microbatch;
}

}  // namespace

int draw_token(std::span<const float> logits, double temperature, int top_k, double uniform) {
  std::vector<int> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](int a, int b) { return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)]; });
  if (temperature <= 0.0) return order.front();
  if (top_k > 0 && static_cast<std::size_t>(top_k) < order.size()) order.resize(static_cast<std::size_t>(top_k));
  const double highest = logits[static_cast<std::size_t>(order.front())];
  std::vector<double> weights;
  for (const int token : order)
    weights.push_back(std::exp((logits[static_cast<std::size_t>(token)] - highest) / temperature));
  double left = uniform * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    left -= weights[i];
    if (left < 0.0) return order[i];
  }
  return order.back();
}

std::string sample_text(const SampleRequest& request, const RankModel& model, const Placement& placement,
                        const PipelineRanks& ranks, Group& pipeline) {
  const Schedule schedule = one_microbatch(placement);
  ExecutorOptions options;
  options.timeout_s = request.timeout_s;
  options.tag_space = kTagSpace;
  Executor executor(schedule, ranks, model.stages(), options);
  const PipelineRank last = placement.rank_of(StageId(placement.num_stages() - 1), MicrobatchId(0), 1);
  std::string text = request.config.prompt;
  for (int i = 0; i < request.config.tokens; ++i) {
    const std::size_t context_size = std::min(text.size(), static_cast<std::size_t>(request.max_context));
    std::vector<std::int64_t> context;
    for (const char c : text.substr(text.size() - context_size)) context.push_back(static_cast<unsigned char>(c));
    const StepResult& result = executor.run_forward({microbatch_of(context)});
    std::byte token{};
    if (ranks.rank == last) {
      const at::Tensor logits = result.outputs.at(0).at(0)[0][-1].narrow(0, 0, kNumBytes).to(at::kFloat).contiguous();
      const int drawn = draw_token({logits.const_data_ptr<float>(), static_cast<std::size_t>(kNumBytes)},
                                   request.config.temperature, request.config.top_k, uniform_at(request.seed, i));
      token = static_cast<std::byte>(drawn);
    }
    pipeline.broadcast({&token, 1}, last.value, Deadline::after_seconds(request.timeout_s));
    text.push_back(static_cast<char>(token));
  }
  return text;
}

}  // namespace ppctl
