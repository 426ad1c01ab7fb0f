#include "simulate/zero_bubble_table.hpp"

#include <charconv>
#include <map>

#include "base/error.hpp"
#include "schedule/generator.hpp"
#include "simulate/simulate.hpp"

namespace ppctl {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

/// One line of the CSV, its cells by column name.
class Cells {
 public:
  Cells(const std::vector<std::string_view>& names, std::string_view line, FilePosition position)
      : position_(std::move(position)) {
    const std::vector<std::string_view> values = split(line, ',');
    if (values.size() != names.size()) {
      throw Error(position_, fmt::format("{} cells in a table of {} columns", values.size(), names.size()));
    }
    for (std::size_t i = 0; i < names.size(); ++i) cells_[names[i]] = values[i];
  }
  std::string_view text(std::string_view name) const {
    const auto found = cells_.find(name);
    if (found == cells_.end()) throw Error(position_, fmt::format("the table has no column \"{}\"", name));
    return found->second;
  }
  template <class Number>
  Number number(std::string_view name) const {
    const std::string_view cell = text(name);
    Number value{};
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc() || end != cell.data() + cell.size()) {
      throw Error(position_, fmt::format("column {}: \"{}\" is no number", name, cell));
    }
    return value;
  }

 private:
  std::map<std::string_view, std::string_view> cells_;
  FilePosition position_;
};

ZeroBubbleRow row_of(const Cells& cells) {
  ZeroBubbleRow row;
  row.model = cells.text("model");
  row.pp = cells.number<int>("p");
  row.num_microbatches = cells.number<int>("m");
  row.chunks = cells.number<int>("v");
  row.forward = cells.number<double>("T_F");
  row.dx = cells.number<double>("T_B");
  row.dw = cells.number<double>("T_W");
  row.p2p = cells.number<double>("c");
  row.paper.one_f_one_b = cells.number<double>("1f1b");
  row.paper.interleaved = cells.number<double>("1f1b_i_exact");
  row.paper.zb_h1 = cells.number<double>("zb_h1");
  row.paper.zb_h2 = cells.number<double>("zb_h2");
  row.paper.zb_2p = cells.number<double>("zb_2p");
  return row;
}

enum class Cost { kWall, kSpan };

double rate(const ZeroBubbleRow& row, std::string_view name, int chunks, Cost cost, double memory_limit = 0) {
  ScheduleSpec spec;
  spec.name = name;
  spec.pp = row.pp;
  spec.chunks = chunks;
  spec.num_microbatches = row.num_microbatches;
  spec.memory_limit = memory_limit;
  const CostModel costs =
      uniform_costs(row.pp * chunks,
                    {.forward_ms = row.forward / chunks, .dx_ms = row.dx / chunks, .dw_ms = row.dw / chunks}, row.p2p);
  spec.costs = mean_chunk_costs(costs);
  const Simulation simulation = simulate(generate_schedule(spec), costs);
  const double time = cost == Cost::kWall ? simulation.wall_ms : simulation.span_ms;
  return (time - row.num_microbatches * (row.forward + row.dx + row.dw)) / time;
}

}  // namespace

std::vector<ZeroBubbleRow> read_zero_bubble_csv(std::string_view text, const std::string& file) {
  std::vector<ZeroBubbleRow> rows;
  std::vector<std::string_view> names;
  int line_number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++line_number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    if (names.empty()) {
      names = split(line, ',');
    } else {
      rows.push_back(row_of(Cells(names, line, {file, line_number, 0})));
    }
  }
  if (rows.empty()) throw_error("{}: the table has no rows", file);
  return rows;
}

void simulate_zero_bubble_row(ZeroBubbleRow& row, bool search) {
  row.ours.one_f_one_b = rate(row, "1f1b", 1, Cost::kWall);
  row.ours.interleaved = rate(row, "interleaved_1f1b", row.chunks, Cost::kWall);
  row.ours.zb_h1 = rate(row, "zb_h1", 1, Cost::kWall);
  row.ours.zb_h2 = rate(row, "zb_h2", 1, Cost::kSpan);
  if (!search) return;
  row.ours.zb_1p = rate(row, "auto", 1, Cost::kSpan, row.pp);
  row.ours.zb_2p = rate(row, "auto", 1, Cost::kSpan, 2.0 * row.pp);
}

std::string zero_bubble_markdown(const std::vector<ZeroBubbleRow>& rows) {
  std::string text =
      "| model | p | m | v | 1f1b, paper | ppctl | 1f1b_i, exact | ppctl | zb_h1, paper | ppctl | zb_h2, paper | ppctl "
      "| zb_1p, ppctl | zb_2p, paper | ppctl |\n"
      "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n";
  const auto cell = [&](std::optional<double> rate) { text += rate ? fmt::format(" {:.4f} |", *rate) : " - |"; };
  for (const ZeroBubbleRow& row : rows) {
    text += fmt::format("| {} | {} | {} | {} |", row.model, row.pp, row.num_microbatches, row.chunks);
    for (const std::optional<double>& rate :
         {std::optional(row.paper.one_f_one_b), std::optional(row.ours.one_f_one_b),
          std::optional(row.paper.interleaved), std::optional(row.ours.interleaved), std::optional(row.paper.zb_h1),
          std::optional(row.ours.zb_h1), std::optional(row.paper.zb_h2), std::optional(row.ours.zb_h2), row.ours.zb_1p,
          row.paper.zb_2p, row.ours.zb_2p}) {
      cell(rate);
    }
    text += "\n";
  }
  return text;
}

}  // namespace ppctl
