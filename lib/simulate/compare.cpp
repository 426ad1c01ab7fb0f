#include "simulate/compare.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "schedule/generator.hpp"
#include "simulate/memory_report.hpp"
#include "simulate/simulate.hpp"

namespace ppctl {
namespace {

std::vector<const GeneratorInfo*> candidates(const CompareRequest& request) {
  std::vector<const GeneratorInfo*> result;
  for (const std::string& name : request.schedules) {
    const GeneratorInfo* info = find_generator(name);
    if (info == nullptr) throw_error("there is no schedule named \"{}\"", name);
    result.push_back(info);
  }
  if (!request.schedules.empty()) return result;
  for (const GeneratorInfo& info : generators()) result.push_back(&info);
  return result;
}

void fill(ComparisonRow& row, const Simulation& simulation) {
  row.step_ms = simulation.wall_ms;
  row.span_ms = simulation.span_ms;
  row.bubble_wall = simulation.bubble_wall();
  row.bubble_span = simulation.bubble_span();
  for (const RankResult& rank : simulation.ranks) {
    row.peak_chunks = std::max(row.peak_chunks, rank.peak_chunks);
    row.peak_bytes = std::max(row.peak_bytes, rank.peak_bytes);
  }
}

ComparisonRow compare_one(const CompareRequest& request, const GeneratorInfo& info, int chunks) {
  ComparisonRow row;
  row.schedule = info.name;
  row.chunks = chunks;
  ScheduleSpec spec;
  spec.name = info.name;
  spec.pp = request.pp;
  spec.chunks = chunks;
  spec.num_microbatches = request.num_microbatches;
  spec.memory_limit = request.memory_limit;
  try {
    if (const auto refusal = refuse_schedule(spec)) throw_error("schedule {}: {}", spec.name, *refusal);
    const bool bidirectional = info.placement == PlacementKind::kBidirectional;
    const Placement placement(info.placement, request.pp, chunks);
    const CostModel costs =
        request.costs_of ? request.costs_of(placement) : resplit_costs(request.costs, placement.num_stages());
    spec.costs = mean_chunk_costs(costs);
    spec.stage_costs = chunk_costs(costs);
    Schedule schedule = generate_schedule(spec);
    lower_schedule(schedule, request.passes_of ? request.passes_of(placement) : request.passes);
    fill(row, simulate(schedule, costs));
    if (request.peak_bytes_of) row.peak_bytes = request.peak_bytes_of(schedule);
    // A bidirectional rank holds two halves of the pipeline's ranks, each 1/p of the model.
    row.peak_microbatches = static_cast<double>(row.peak_chunks) / (bidirectional ? 1 : chunks);
  } catch (const Error& error) {
    row.refused = error.what();
  }
  return row;
}

std::string gib(double bytes) { return fmt::format("{:.2f}", bytes / (1024.0 * 1024 * 1024)); }

}  // namespace

std::vector<ComparisonRow> compare_schedules(const CompareRequest& request) {
  std::vector<ComparisonRow> rows;
  for (const GeneratorInfo* info : candidates(request)) {
    std::vector<int> choices = request.chunks;
    if (info->chunks_fixed || choices.empty()) choices = {info->default_chunks};
    for (const int chunks : choices) rows.push_back(compare_one(request, *info, chunks));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const ComparisonRow& a, const ComparisonRow& b) {
    if (a.refused.has_value() != b.refused.has_value()) return b.refused.has_value();
    return a.step_ms < b.step_ms;
  });
  return rows;
}

ComparisonRow best_fit(const std::vector<ComparisonRow>& rows, double memory_bytes) {
  constexpr double kTie = 1 + 1e-4;
  const ComparisonRow* best = nullptr;
  const ComparisonRow* leanest = nullptr;
  for (const ComparisonRow& row : rows) {
    if (row.refused) continue;
    if (leanest == nullptr || row.peak_bytes < leanest->peak_bytes) leanest = &row;
    if (row.peak_bytes > memory_bytes) continue;
    const bool faster = best == nullptr || row.step_ms * kTie < best->step_ms;
    const bool leaner = best != nullptr && row.step_ms <= best->step_ms * kTie && row.peak_bytes < best->peak_bytes;
    if (faster || leaner) best = &row;
  }
  if (leanest == nullptr) throw_error("no schedule can be generated for this job");
  if (best == nullptr) {
    throw_error("no schedule fits in {} a rank; the leanest, {} with chunks: {}, needs {}", bytes_text(memory_bytes),
                leanest->schedule, leanest->chunks, bytes_text(leanest->peak_bytes));
  }
  return *best;
}

std::string comparison_text(const std::vector<ComparisonRow>& rows, double memory_bytes) {
  const bool bytes = std::any_of(rows.begin(), rows.end(), [](const ComparisonRow& row) { return row.peak_bytes > 0; });
  std::string text = fmt::format("{:<18}  {:>6}  {:>10}  {:>11}  {:>11}  {:>11}  {:>17}", "schedule", "chunks",
                                 "step ms", "bubble wall", "bubble span", "peak chunks", "peak microbatches");
  if (bytes) text += fmt::format("  {:>8}", "peak GiB");
  text += "\n";
  for (const ComparisonRow& row : rows) {
    text += fmt::format("{:<18}  {:>6}  ", row.schedule, row.chunks);
    if (row.refused) {
      text.append("refused: ").append(*row.refused).append("\n");
      continue;
    }
    text += fmt::format("{:>10.5g}  {:>10.2f}%  {:>10.2f}%  {:>11}  {:>17.4g}", row.step_ms, 100 * row.bubble_wall,
                        100 * row.bubble_span, row.peak_chunks, row.peak_microbatches);
    if (bytes) text += fmt::format("  {:>8}", gib(row.peak_bytes));
    if (memory_bytes > 0 && row.peak_bytes > memory_bytes) text += "  does not fit";
    text += "\n";
  }
  return text;
}

}  // namespace ppctl
