#include "overlap_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "trace/chrome_trace.hpp"

namespace ppctl {
namespace {

using Json = nlohmann::ordered_json;

std::string percent(const Exposure& exposure) {
  return exposure.total_ms > 0 ? fmt::format("{:.1f}", 100 * exposure.hidden()) : std::string("-");
}

Json exposure_json(const Exposure& exposure) {
  return {{"total_ms", exposure.total_ms}, {"exposed_ms", exposure.exposed_ms}, {"hidden", exposure.hidden()}};
}

Json side_json(double wall_ms, double first_wall_ms, const Exposure& exchange, const Exposure& p2p) {
  return {{"wall_ms", wall_ms},
          {"speedup", first_wall_ms / wall_ms},
          {"exchange", exposure_json(exchange)},
          {"p2p", exposure_json(p2p)}};
}

}  // namespace

std::string overlap_text(const std::string& title, const std::vector<OverlapRow>& rows) {
  std::string text = title + "\n";
  text +=
      "Hidden: share of the communication of the ranks' steady states (first backward to last forward) beside which "
      "they computed\n\n";
  text += fmt::format("{:<18} | {:>9} {:>9} {:>6} {:>8} | {:>13} {:>6} | {:>13} {:>6} | {:>6} {:>7}\n", "variant",
                      "wall: sim", "meas", "diff %", "speed-up", "a2a hid.: sim", "meas", "p2p hid.: sim", "meas",
                      "calls", "batches");
  for (const OverlapRow& row : rows) {
    const OverlapMeasurement& got = row.measured;
    text +=
        fmt::format("{:<18} | {:>9.1f} {:>9.1f} {:>+6.2f} {:>8.3f} | {:>13} {:>6} | {:>13} {:>6} | {:>6} {:>7}\n",
                    row.variant, row.simulation.wall_ms, got.wall_ms, 100 * (got.wall_ms / row.simulation.wall_ms - 1),
                    rows[0].measured.wall_ms / got.wall_ms, percent(row.simulated_exchange), percent(got.exchange),
                    percent(row.simulated_p2p), percent(got.p2p), row.simulation.p2p_calls, row.simulation.p2p_batches);
  }
  return text;
}

std::string overlap_json(const std::vector<OverlapRow>& rows) {
  Json array = Json::array();
  for (const OverlapRow& row : rows) {
    const double simulated_ms = row.simulation.wall_ms;
    array.push_back(
        {{"variant", row.variant},
         {"p2p_messages", row.simulation.p2p_messages},
         {"p2p_calls", row.simulation.p2p_calls},
         {"p2p_batches", row.simulation.p2p_batches},
         {"simulated", side_json(simulated_ms, rows[0].simulation.wall_ms, row.simulated_exchange, row.simulated_p2p)},
         {"measured",
          side_json(row.measured.wall_ms, rows[0].measured.wall_ms, row.measured.exchange, row.measured.p2p)}});
  }
  return array.dump(2) + "\n";
}

std::string overlap_trace(const std::vector<OverlapRow>& rows) {
  std::vector<Timeline> timelines;
  for (const OverlapRow& row : rows) {
    for (std::size_t i = 0; i < row.measured.pipelines.size(); ++i) {
      timelines.push_back(row.measured.pipelines[i]);
      timelines.back().title = fmt::format("{}, measured, pipeline {}", row.variant, i);
    }
    timelines.push_back(row.simulation.timeline);
    timelines.back().title = row.variant + ", simulated";
  }
  std::ostringstream out;
  write_chrome_trace(out, timelines);
  return out.str();
}

}  // namespace ppctl
