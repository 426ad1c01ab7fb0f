#include "bubble_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "trace/chrome_trace.hpp"

namespace ppctl {
namespace {

using Json = nlohmann::ordered_json;

std::optional<double> fraction(const std::optional<double>& idle_ms, double ideal_ms) {
  if (!idle_ms) return std::nullopt;
  return *idle_ms / (*idle_ms + ideal_ms);
}

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.2f}", *share * 100) : std::string("-");
}

std::string theory_percent(const BubbleRow& row, const std::optional<double>& share) {
  return fmt::format("{}{}", share && row.theory->at_most ? "<=" : "", percent(share));
}

template <class Wait>
double total(const std::vector<Wait>& waits) {
  double sum = 0;
  for (const Wait& wait : waits) sum += wait.ms;
  return sum;
}

template <class Wait>
std::string by_peer(const std::vector<Wait>& waits) {
  std::string text;
  for (const Wait& wait : waits) {
    if (wait.ms >= 0.05) text += fmt::format("{}{}: {:.1f}", text.empty() ? "" : ", ", wait.peer, wait.ms);
  }
  return text.empty() ? "-" : text;
}

template <class Wait>
Json waits_json(const std::vector<Wait>& waits) {
  Json array = Json::array();
  for (const Wait& wait : waits) array.push_back({{"rank", wait.peer.value}, {"ms", wait.ms}});
  return array;
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

int worst_peak(const auto& ranks) {
  int peak = 0;
  for (const auto& rank : ranks) peak = std::max(peak, rank.peak_chunks);
  return peak;
}

std::string rank_lines(const BubbleRow& row) {
  std::string text = fmt::format("\n{}, pp {}, chunks {}, microbatches {}: idle ms by cause, simulated / measured\n",
                                 row.name(), row.pp, row.chunks, row.num_microbatches);
  text += fmt::format("{:>5} {:>17} {:>17} {:>17} {:>9} {:>7}  waits by rank (measured)\n", "rank", "warm-up", "drain",
                      "waits", "executor", "peak");
  for (std::size_t r = 0; r < row.measured.ranks.size(); ++r) {
    const RankResult& simulated = row.simulation.ranks[r];
    const MeasuredRank& measured = row.measured.ranks[r];
    const auto pair = [](double a, double b) { return fmt::format("{:.1f} / {:.1f}", a, b); };
    text += fmt::format("{:>5} {:>17} {:>17} {:>17} {:>9.1f} {:>7}  {}\n", r,
                        pair(simulated.idle.warmup_ms, measured.warmup_ms),
                        pair(simulated.idle.drain_ms, measured.drain_ms),
                        pair(total(simulated.idle.waits), total(measured.waits)), measured.overhead_ms,
                        fmt::format("{}/{}", simulated.peak_chunks, measured.peak_chunks), by_peer(measured.waits));
  }
  return text;
}

/// Names the rows whose measurement is more than one percentage point from the simulation.
std::string agreement_text(const std::vector<BubbleRow>& rows) {
  constexpr double kPoint = 0.01;
  std::string beyond;
  const auto check = [&](const BubbleRow& row, const char* what, double measured, double simulated) {
    if (std::abs(measured - simulated) <= kPoint) return;
    beyond += fmt::format("  {}, pp {}, chunks {}, microbatches {}: {} {:+.2f}\n", row.name(), row.pp, row.chunks,
                          row.num_microbatches, what, (measured - simulated) * 100);
  };
  for (const BubbleRow& row : rows) {
    check(row, "wall", row.measured.bubble_wall(), row.simulation.bubble_wall());
    check(row, "span", row.measured.bubble_span(), row.simulation.bubble_span());
  }
  if (beyond.empty()) return "All measured bubbles are within 1 percentage point of the simulated ones.\n";
  return "More than 1 percentage point from the simulated bubble:\n" + beyond;
}

/// How much of all ranks' time together is no work.
double idle_share(const auto& ranks, double wall_ms) {
  double busy = 0;
  for (const auto& rank : ranks) busy += rank.busy_ms;
  return 1 - busy / (wall_ms * static_cast<double>(ranks.size()));
}

/// An encoder in one place makes a rank busy for which all others wait: no bubble of the busiest rank shows that.
std::string encoder_text(const std::vector<BubbleRow>& rows, std::size_t width) {
  if (std::ranges::all_of(rows, [](const BubbleRow& row) { return row.encoder.empty(); })) return {};
  std::string text = "\nWith the encoder: ms of a step, and what of all ranks' time is idle, in %\n\n";
  text += fmt::format("{:<{}} {:>3} {:>2} {:>4} | {:>9} {:>8} | {:>9} {:>6}\n", "schedule", width, "pp", "v", "m",
                      "step: sim", "meas", "idle: sim", "meas");
  for (const BubbleRow& row : rows) {
    text += fmt::format("{:<{}} {:>3} {:>2} {:>4} | {:>9.1f} {:>8.1f} | {:>9.2f} {:>6.2f}\n", row.name(), width, row.pp,
                        row.chunks, row.num_microbatches, row.simulation.wall_ms, row.measured.wall_ms,
                        idle_share(row.simulation.ranks, row.simulation.wall_ms) * 100,
                        idle_share(row.measured.ranks, row.measured.wall_ms) * 100);
  }
  return text;
}

Json simulated_json(const Simulation& simulation) {
  Json ranks = Json::array();
  for (const RankResult& rank : simulation.ranks) {
    ranks.push_back({{"busy_ms", rank.busy_ms},
                     {"warmup_ms", rank.idle.warmup_ms},
                     {"drain_ms", rank.idle.drain_ms},
                     {"waits", waits_json(rank.idle.waits)},
                     {"peak_chunks", rank.peak_chunks}});
  }
  return {{"wall_ms", simulation.wall_ms},           {"span_ms", simulation.span_ms},
          {"ideal_ms", simulation.ideal_ms},         {"bubble_wall", simulation.bubble_wall()},
          {"bubble_span", simulation.bubble_span()}, {"ranks", ranks}};
}

Json measured_json(const BubbleMeasurement& measured) {
  Json ranks = Json::array();
  for (const MeasuredRank& rank : measured.ranks) {
    ranks.push_back({{"busy_ms", rank.busy_ms},
                     {"warmup_ms", rank.warmup_ms},
                     {"drain_ms", rank.drain_ms},
                     {"waits", waits_json(rank.waits)},
                     {"executor_ms", rank.overhead_ms},
                     {"peak_chunks", rank.peak_chunks}});
  }
  return {{"wall_ms", measured.wall_ms},           {"span_ms", measured.span_ms},
          {"ideal_ms", measured.ideal_ms},         {"bubble_wall", measured.bubble_wall()},
          {"bubble_span", measured.bubble_span()}, {"ranks", ranks}};
}

}  // namespace

std::optional<double> BubbleRow::theory_wall() const {
  return theory ? fraction(theory->bubble_wall_ms, simulation.ideal_ms) : std::nullopt;
}
std::optional<double> BubbleRow::theory_span() const {
  return theory ? fraction(theory->bubble_span_ms, simulation.ideal_ms) : std::nullopt;
}

std::string bubble_text(const std::vector<BubbleRow>& rows) {
  std::string text = "Bubbles in % of the time: theory, simulated, measured, and the difference of the last two\n\n";
  std::size_t width = 18;
  for (const BubbleRow& row : rows) width = std::max(width, row.name().size());
  text += fmt::format("{:<{}} {:>3} {:>2} {:>4} | {:>7} {:>7} {:>7} {:>6} | {:>7} {:>7} {:>7} {:>6} | {:>14}\n",
                      "schedule", width, "pp", "v", "m", "wall: t", "sim", "meas", "diff", "span: t", "sim", "meas",
                      "diff", "peak t/sim/meas");
  for (const BubbleRow& row : rows) {
    const Simulation& sim = row.simulation;
    const BubbleMeasurement& got = row.measured;
    const std::string peak =
        row.theory && row.theory->peak_chunks ? std::to_string(*row.theory->peak_chunks) : std::string("-");
    text += fmt::format(
        "{:<{}} {:>3} {:>2} {:>4} | {:>7} {:>7.2f} {:>7.2f} {:>+6.2f} | {:>7} {:>7.2f} {:>7.2f} {:>+6.2f} | {:>14}\n",
        row.name(), width, row.pp, row.chunks, row.num_microbatches, theory_percent(row, row.theory_wall()),
        sim.bubble_wall() * 100, got.bubble_wall() * 100, (got.bubble_wall() - sim.bubble_wall()) * 100,
        theory_percent(row, row.theory_span()), sim.bubble_span() * 100, got.bubble_span() * 100,
        (got.bubble_span() - sim.bubble_span()) * 100,
        fmt::format("{}/{}/{}", peak, worst_peak(sim.ranks), worst_peak(got.ranks)));
  }
  text.append(encoder_text(rows, width)).append("\n").append(agreement_text(rows));
  for (const BubbleRow& row : rows) text += rank_lines(row);
  return text;
}

std::string bubble_json(const std::vector<BubbleRow>& rows) {
  Json array = Json::array();
  for (const BubbleRow& row : rows) {
    const Json peak = row.theory ? or_null(row.theory->peak_chunks) : Json(nullptr);
    array.push_back({{"schedule", row.schedule},
                     {"encoder", row.encoder.empty() ? Json(nullptr) : Json(row.encoder)},
                     {"pp", row.pp},
                     {"chunks", row.chunks},
                     {"microbatches", row.num_microbatches},
                     {"theory",
                      {{"bubble_wall", or_null(row.theory_wall())},
                       {"bubble_span", or_null(row.theory_span())},
                       {"peak_chunks", peak}}},
                     {"simulated", simulated_json(row.simulation)},
                     {"measured", measured_json(row.measured)}});
  }
  return array.dump(2) + "\n";
}

std::string bubble_trace(const std::vector<BubbleRow>& rows) {
  std::vector<Timeline> timelines;
  for (const BubbleRow& row : rows) {
    const std::string name = fmt::format("{} pp {} m {}", row.name(), row.pp, row.num_microbatches);
    timelines.push_back(row.measured.timeline);
    timelines.back().title = name + ", measured";
    timelines.push_back(row.simulation.timeline);
    timelines.back().title = name + ", simulated";
  }
  std::ostringstream out;
  write_chrome_trace(out, timelines);
  return out.str();
}

}  // namespace ppctl
