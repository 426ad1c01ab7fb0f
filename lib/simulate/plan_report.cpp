#include "simulate/plan_report.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "simulate/overlapped_pair.hpp"

namespace ppctl {
namespace {

/// The formulas hold for stages that cost the same.
std::optional<Theory> theory_of(const Schedule& schedule, const CostModel& costs) {
  const StageCosts& first = costs.stages.front();
  const bool uniform = std::all_of(costs.stages.begin(), costs.stages.end(), [&](const StageCosts& stage) {
    return stage.forward_ms == first.forward_ms && stage.dx_ms == first.dx_ms && stage.dw_ms == first.dw_ms;
  });
  if (!uniform) return std::nullopt;
  return schedule_theory(schedule.name, schedule.pp(), schedule.placement.chunks(), schedule.num_microbatches,
                         mean_chunk_costs(costs), overlapped_pair_ms(costs, first, first));
}

std::string waits_text(const RankIdle& idle) {
  std::string text;
  for (const PeerWait& wait : idle.waits) {
    text += fmt::format("{}{:.4g} for rank {}", text.empty() ? "" : ", ", wait.ms, wait.peer);
  }
  if (idle.collective_ms > 0)
    text += fmt::format("{}{:.4g} for collectives", text.empty() ? "" : ", ", idle.collective_ms);
  if (idle.offload_ms > 0) text += fmt::format("{}{:.4g} for offloads", text.empty() ? "" : ", ", idle.offload_ms);
  return text.empty() ? "-" : text;
}

HtmlTable rank_table(const PlanReport& report) {
  HtmlTable table;
  table.title = "Ranks";
  table.header = {"rank", "busy ms", "span ms", "idle", "peak chunks", "warm-up ms", "drain ms", "waits, ms"};
  const bool bytes = !report.memory && std::any_of(report.simulation.ranks.begin(), report.simulation.ranks.end(),
                                                   [](const RankResult& rank) { return rank.peak_bytes > 0; });
  if (bytes) table.header.insert(table.header.begin() + 5, "peak memory");
  for (std::size_t rank = 0; rank < report.simulation.ranks.size(); ++rank) {
    const RankResult& result = report.simulation.ranks[rank];
    const double wall = report.simulation.wall_ms;
    std::vector<std::string> row = {
        fmt::format("{}", rank),
        fmt::format("{:.4g}", result.busy_ms),
        fmt::format("{:.4g}", result.span_ms()),
        fmt::format("{:.1f}%", wall > 0 ? 100 * (wall - result.busy_ms) / wall : 0),
        fmt::format("{}", result.peak_chunks),
        fmt::format("{:.4g}", result.idle.warmup_ms),
        fmt::format("{:.4g}", result.idle.drain_ms),
        waits_text(result.idle),
    };
    if (bytes) row.insert(row.begin() + 5, bytes_text(result.peak_bytes));
    table.rows.push_back(row);
  }
  return table;
}

/// Columns aligned, two spaces apart; more than `max_rows` rows leave out the middle ones.
std::string aligned(const HtmlTable& table, std::size_t max_rows) {
  std::vector<std::size_t> widths;
  for (const std::string& name : table.header) widths.push_back(name.size());
  for (const auto& row : table.rows) {
    for (std::size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size());
  }
  std::string text;
  const auto add = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t column = 0; column < row.size(); ++column) {
      const bool last = column + 1 == row.size();
      line += last ? row[column] : fmt::format("{:>{}}  ", row[column], widths[column]);
    }
    text.append(line).append("\n");
  };
  add(table.header);
  const std::size_t num_rows = table.rows.size();
  for (std::size_t row = 0; row < num_rows; ++row) {
    if (num_rows > max_rows && row == max_rows - max_rows / 2) {
      text += fmt::format("...  ({} more ranks)\n", num_rows - max_rows);
      row = num_rows - max_rows / 2;
    }
    add(table.rows[row]);
  }
  return text;
}

std::string theory_text(const Theory& theory, double ideal_ms) {
  std::string text;
  const auto add = [&](std::string_view name, const std::optional<double>& bubble) {
    if (!bubble) return;
    const double time = ideal_ms + *bubble;
    text += fmt::format("{}{}{} {:.4g} ms ({:.2f}%)", text.empty() ? "" : ", ", name, theory.at_most ? " at most" : "",
                        *bubble, time > 0 ? 100 * *bubble / time : 0);
  };
  add("wall", theory.bubble_wall_ms);
  add("span", theory.bubble_span_ms);
  if (theory.bubble_formula != "0") text += fmt::format(" = {}", theory.bubble_formula);
  if (theory.peak_chunks) text += fmt::format("; peak {} chunks = {}", *theory.peak_chunks, theory.peak_formula);
  return text;
}

std::string cadence_text(const Cadence& cadence) {
  return fmt::format(
      "every {:.6g} ms behind a global norm (bubble {:.2f}%), every {:.6g} ms with post-validation ({:.2f}%)",
      cadence.barrier_ms, 100 * cadence.bubble_barrier(), cadence.post_validation_ms,
      100 * cadence.bubble_post_validation());
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text.append(text.empty() ? "" : ", ").append(name);
  return text;
}

int worst_peak(const PlanReport& report) {
  int peak = 0;
  for (const RankResult& rank : report.simulation.ranks) peak = std::max(peak, rank.peak_chunks);
  return peak;
}

std::string headline(const PlanReport& report) {
  return fmt::format("{}: {} ranks, {} {} a rank ({} placement), {} microbatches", report.schedule, report.pp,
                     report.chunks, report.chunks == 1 ? "chunk" : "chunks", report.placement, report.num_microbatches);
}

}  // namespace

PlanReport make_plan_report(const Schedule& schedule, const CostModel& costs, bool timeline) {
  PlanReport report;
  report.simulation = simulate(schedule, costs, {.timeline = timeline});
  report.schedule = schedule.name;
  report.placement = to_string(schedule.placement.kind());
  report.pp = schedule.pp();
  report.chunks = schedule.placement.chunks();
  report.num_microbatches = schedule.num_microbatches;
  report.passes = schedule.passes;
  report.theory = theory_of(schedule, costs);
  report.simulation.timeline.title = headline(report);
  return report;
}

std::string plan_text(const PlanReport& report, const TextGridOptions& grid) {
  const Simulation& simulation = report.simulation;
  std::string text = headline(report) + "\n";
  text += fmt::format("time:    wall {:.6g} ms, longest span {:.6g} ms, work of the busiest rank {:.6g} ms\n",
                      simulation.wall_ms, simulation.span_ms, simulation.ideal_ms);
  text += fmt::format("bubble:  wall {:.4g} ms ({:.2f}%), span {:.4g} ms ({:.2f}%)\n",
                      simulation.wall_ms - simulation.ideal_ms, 100 * simulation.bubble_wall(),
                      simulation.span_ms - simulation.ideal_ms, 100 * simulation.bubble_span());
  if (report.theory) text += fmt::format("theory:  {}\n", theory_text(*report.theory, simulation.ideal_ms));
  if (report.cadence) text += fmt::format("a step:  {}\n", cadence_text(*report.cadence));
  text += fmt::format("peak:    {} chunks ({:.4g} microbatches) on the worst rank\n", worst_peak(report),
                      static_cast<double>(worst_peak(report)) / report.chunks);
  if (report.memory) text += fmt::format("memory:  {}\n", memory_summary(*report.memory));
  text += fmt::format("steps:   {}; {} messages between ranks", simulation.num_steps, simulation.p2p_messages);
  if (simulation.p2p_calls > 0) {
    text += fmt::format(" in {} calls, {} of them duplex batches", simulation.p2p_calls, simulation.p2p_batches);
  }
  text += "\n";
  if (!report.passes.empty()) text += fmt::format("passes:  {}\n", joined(report.passes));
  text += report.notes;
  const auto max_rows = static_cast<std::size_t>(std::max(2, grid.max_ranks));
  text.append("\n").append(aligned(rank_table(report), max_rows));
  if (report.memory) text.append("\n").append(aligned(memory_table(*report.memory), max_rows));
  if (!simulation.timeline.ranks.empty()) text.append("\n").append(render_text_grid(simulation.timeline, grid));
  return text;
}

std::vector<HtmlTable> plan_tables(const PlanReport& report) {
  std::vector<HtmlTable> tables = {rank_table(report)};
  if (report.memory) tables.push_back(memory_table(*report.memory));
  if (report.theory) {
    HtmlTable theory{"Theory and simulation", {"", "formula", "theory", "simulated"}, {}};
    const auto add = [&](std::string_view name, const std::optional<double>& value, double simulated) {
      if (!value) return;
      theory.rows.push_back({std::string(name), report.theory->bubble_formula,
                             fmt::format("{}{:.4g}", report.theory->at_most ? "at most " : "", *value),
                             fmt::format("{:.4g}", simulated)});
    };
    const Simulation& simulation = report.simulation;
    add("bubble, wall, ms", report.theory->bubble_wall_ms, simulation.wall_ms - simulation.ideal_ms);
    add("bubble, span, ms", report.theory->bubble_span_ms, simulation.span_ms - simulation.ideal_ms);
    if (report.theory->peak_chunks) {
      theory.rows.push_back({"peak chunks, worst rank", report.theory->peak_formula,
                             fmt::format("{}", *report.theory->peak_chunks), fmt::format("{}", worst_peak(report))});
    }
    tables.push_back(theory);
  }
  return tables;
}

std::string plan_html(const PlanReport& report) {
  const Simulation& simulation = report.simulation;
  HtmlReport page;
  page.title = headline(report);
  page.figures = {{"wall", fmt::format("{:.4g} ms", simulation.wall_ms)},
                  {"longest span of a rank", fmt::format("{:.4g} ms", simulation.span_ms)},
                  {"work of the busiest rank", fmt::format("{:.4g} ms", simulation.ideal_ms)},
                  {"bubble of the wall", fmt::format("{:.2f}%", 100 * simulation.bubble_wall())},
                  {"bubble of the span", fmt::format("{:.2f}%", 100 * simulation.bubble_span())},
                  {"peak chunks", fmt::format("{}", worst_peak(report))},
                  {"messages between ranks", fmt::format("{}", simulation.p2p_messages)}};
  if (report.cadence) page.figures.push_back({"a step", cadence_text(*report.cadence)});
  if (!simulation.timeline.ranks.empty()) {
    page.timelines.push_back(simulation.timeline);
    page.timelines.back().title = "simulated";
  }
  page.tables = plan_tables(report);
  return render_html(page);
}

}  // namespace ppctl
