#include "plan_search.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "job_schedule.hpp"
#include "mpipe_choice.hpp"
#include "plan_model.hpp"
#include "simulate/memory_report.hpp"

namespace ppctl {
namespace {

/// Less than a job's own schedule may take, since hundreds are compared: a few milliseconds for each.
constexpr std::int64_t kMaxPlacements = 50'000;

struct RecomputeChoice {
  const char* yaml;
  RecomputeConfig config;
};

const std::array<RecomputeChoice, 4>& recompute_choices() {
  static const std::array<RecomputeChoice, 4> choices = {{
      {"none", {}},
      {"{attention: true}", {false, true, false, 1, {}}},
      {"{attention: true, mlp: true}", {false, true, true, 1, {}}},
      {"full", {true, false, false, 1, {}}},
  }};
  return choices;
}

/// Plain, and MPipe with none, half and all of the layers in both modes.
std::vector<MpipeConfig> encoder_choices(const PlanOptions& options, JobConfig job) {
  job.mpipe.enabled = false;
  const PlanModel model(options, job);
  constexpr int kNumbersOfLayers = 3;
  if (!model.known() || !model.spec().vision) return {job.mpipe};
  return mpipe_ways(job, model.spec(), kNumbersOfLayers);
}

std::vector<MemoryMix> mixes_of(const JobConfig& job, const MpipeConfig& mpipe) {
  std::vector<MemoryMix> mixes;
  for (const char* layers : {"uniform", "auto"}) {
    for (const RecomputeChoice& recompute : recompute_choices()) {
      for (const bool swaps : {false, true}) {
        MemoryMix mix{job, layers, recompute.yaml, swaps};
        mix.job.pipeline.layers = layers;
        mix.job.memory_gib = 0;  // what fits is looked at afterwards
        mix.job.recompute = recompute.config;
        mix.job.swap.layers = swaps ? "all" : "";
        mix.job.mpipe = mpipe;
        mixes.push_back(std::move(mix));
      }
    }
  }
  return mixes;
}

int effort(const MemoryMix& mix) {
  const RecomputeConfig& recompute = mix.job.recompute;
  return (mix.job.mpipe.enabled ? 1 : 0) + (mix.swaps ? 1 : 0) + (recompute.full ? 3 : 0) +
         (recompute.attention ? 1 : 0) + (recompute.mlp ? 1 : 0);
}

std::vector<ComparisonRow> compare_mix(const PlanOptions& options, const MemoryMix& mix) {
  const PlanModel model(options, mix.job);
  CompareRequest request;
  request.pp = mix.job.parallel.pp;
  request.num_microbatches = mix.job.num_microbatches();
  request.costs_of = [&](const Placement& placement) { return comparable_costs(options, mix.job, model, placement); };
  request.peak_bytes_of = [&](const Schedule& schedule) {
    return static_cast<double>(largest_total(model.memory(schedule)));
  };
  request.passes_of = [&](const Placement& placement) {
    PassOptions passes = pass_options(mix.job, placement);
    passes.mpipe.max_placements = kMaxPlacements;
    return passes;
  };
  request.memory_limit = mix.job.pipeline.memory_limit;
  request.chunks = options.chunks ? std::vector<int>{*options.chunks} : std::vector<int>{1, 2, 3, 4};
  return compare_schedules(request);
}

}  // namespace

std::vector<MixRow> search_mixes(const PlanOptions& options, const JobConfig& job) {
  std::vector<MixRow> rows;
  for (const MpipeConfig& mpipe : encoder_choices(options, job)) {
    for (const MemoryMix& mix : mixes_of(job, mpipe)) {
      for (ComparisonRow& row : compare_mix(options, mix)) {
        if (!row.refused) rows.push_back({mix, std::move(row)});
      }
    }
  }
  if (rows.empty()) throw_error("no schedule can be generated for this job");
  std::sort(rows.begin(), rows.end(), [](const MixRow& a, const MixRow& b) { return a.row.step_ms < b.row.step_ms; });
  // Among those that take as long as the first of them.
  constexpr double kTie = 1 + 1e-4;
  for (auto first = rows.begin(); first != rows.end();) {
    const double most = first->row.step_ms * kTie;
    const auto last = std::find_if(first, rows.end(), [most](const MixRow& row) { return row.row.step_ms > most; });
    std::stable_sort(first, last, [](const MixRow& a, const MixRow& b) {
      return std::pair(effort(a.mix), a.row.peak_bytes) < std::pair(effort(b.mix), b.row.peak_bytes);
    });
    first = last;
  }
  return rows;
}

const MixRow& cheapest_fit(const std::vector<MixRow>& rows, double bytes) {
  const auto fits =
      std::find_if(rows.begin(), rows.end(), [bytes](const MixRow& row) { return row.row.peak_bytes <= bytes; });
  if (fits != rows.end()) return *fits;
  const auto leanest = std::min_element(
      rows.begin(), rows.end(), [](const MixRow& a, const MixRow& b) { return a.row.peak_bytes < b.row.peak_bytes; });
  throw_error(
      "no schedule fits in {} a rank; the leanest, {} with chunks: {}, layers {}, recompute {}, swap {}, needs {}",
      bytes_text(bytes), leanest->row.schedule, leanest->row.chunks, leanest->mix.layers, leanest->mix.recompute,
      leanest->mix.swaps ? "all" : "none", bytes_text(leanest->row.peak_bytes));
}

std::string search_text(const std::vector<MixRow>& rows, double bytes) {
  constexpr int kMostShown = 10;
  const bool multimodal = std::ranges::any_of(rows, [](const MixRow& row) { return row.mix.job.mpipe.enabled; });
  std::string text =
      fmt::format("{:<18}  {:>6}  {:<7}  {:<28}  {:<4}  {:>10}  {:>11}  {:>10}{}\n", "schedule", "chunks", "layers",
                  "recompute", "swap", "step ms", "bubble wall", "peak", multimodal ? "  mpipe" : "");
  // Of each schedule what is slower must be leaner, to be worth a line.
  std::map<std::pair<std::string, int>, double> leanest;
  int shown = 0;
  for (const MixRow& row : rows) {
    if (row.row.peak_bytes > bytes) continue;
    const auto [known, is_first] = leanest.try_emplace({row.row.schedule, row.row.chunks}, row.row.peak_bytes);
    if (!is_first && row.row.peak_bytes >= known->second) continue;
    known->second = row.row.peak_bytes;
    text += fmt::format("{:<18}  {:>6}  {:<7}  {:<28}  {:<4}  {:>10.5g}  {:>10.2f}%  {:>10}{}\n", row.row.schedule,
                        row.row.chunks, row.mix.layers, row.mix.recompute, row.mix.swaps ? "all" : "none",
                        row.row.step_ms, 100 * row.row.bubble_wall, bytes_text(row.row.peak_bytes),
                        multimodal ? "  " + mpipe_name(row.mix.job.mpipe) : "");
    if (++shown == kMostShown) break;
  }
  return text;
}

std::string mix_yaml(const MixRow& row) {
  std::string text = fmt::format("pipeline: {{schedule: {}, chunks: {}, layers: {}}}\n", row.row.schedule,
                                 row.row.chunks, row.mix.layers);
  text += mpipe_yaml(row.mix.job.mpipe);
  if (row.mix.recompute != "none") text += fmt::format("recompute: {}\n", row.mix.recompute);
  if (row.mix.swaps) {
    const SwapConfig& swap = row.mix.job.swap;
    text += fmt::format("swap: {{layers: all, tier: file, folder: {}}}\n", swap.folder.empty() ? "swap" : swap.folder);
  }
  return text;
}

}  // namespace ppctl
