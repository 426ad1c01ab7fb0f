#include "trace/text_grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "trace/event_names.hpp"
#include "trace/timeline_stats.hpp"

namespace ppctl {
namespace {

/// One step as it is drawn: columns [begin, end) of the whole timeline, before its middle is left out.
struct Block {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::string label;
  EventKind kind = EventKind::kOther;
};

constexpr std::string_view kCut = " ~ ";

/// Lane 0's work, with an overlapped pair's other half (same start, lane 1) in the label.
std::vector<Block> blocks_of(const std::vector<TimelineEvent>& events, double columns_a_ms, bool with_stage) {
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const TimelineEvent& event = events[i];
    if (event.lane != 0 || !is_work(event.kind)) continue;
    Block block;
    block.begin = std::llround(event.start_ms * columns_a_ms);
    block.end = std::llround(event.end_ms * columns_a_ms);
    block.kind = event.kind;
    block.label = event_label(event, with_stage);
    for (std::size_t j = i + 1; j < events.size() && events[j].start_ms <= event.start_ms; ++j) {
      if (events[j].lane == 1) block.label.append("+").append(event_label(events[j], with_stage));
    }
    if (block.end > block.begin) blocks.push_back(block);
  }
  return blocks;
}

/// How time becomes columns.
struct Scale {
  double columns_a_ms = 0;  ///< 0: there is nothing to draw
  std::int64_t cell = 0;    ///< columns of the widest label and a gap
};

/// The shortest step shows its label and a gap, unless steps differ so much that the others
/// would fill the screen.
Scale scale_of(const Timeline& timeline, bool with_stage) {
  double shortest = std::numeric_limits<double>::max();
  double sum = 0;
  std::int64_t count = 0;
  std::size_t label = 2;
  for (const auto& events : timeline.ranks) {
    for (const TimelineEvent& event : events) {
      const double duration = event.end_ms - event.start_ms;
      if (event.lane != 0 || !is_work(event.kind) || duration <= 0) continue;
      shortest = std::min(shortest, duration);
      sum += duration;
      ++count;
      label = std::max(label, event_label(event, with_stage).size());
    }
  }
  if (count == 0) return {};
  const double cell = static_cast<double>(label + 1);
  const double mean = sum / static_cast<double>(count);
  return {std::min(cell / shortest, 3 * cell / mean), static_cast<std::int64_t>(label + 1)};
}

/// Which columns of the timeline are shown: all, or the first `head` and the last `tail`.
struct Window {
  std::int64_t total = 0;
  std::int64_t head = 0;
  std::int64_t tail = 0;

  bool cut() const { return head + tail < total; }
};

Window window_of(std::int64_t total, std::int64_t width) {
  if (total <= width) return {total, total, 0};
  const std::int64_t shown = std::max<std::int64_t>(8, width - static_cast<std::int64_t>(kCut.size()));
  return {total, shown - shown / 2, shown / 2};
}

/// The columns [from, to) of a row.
std::string draw(const std::vector<Block>& blocks, std::int64_t from, std::int64_t to, std::int64_t cell, bool colour) {
  std::string row;
  std::int64_t column = from;
  for (const Block& block : blocks) {
    if (block.end <= from || block.begin >= to) continue;
    if (block.begin > column) row.append(static_cast<std::size_t>(block.begin - column), '.');
    std::string text = block.label;
    const auto length = static_cast<std::size_t>(block.end - block.begin);
    // The last column of a block stays free: it is the border to the next one.
    text.resize(length > 1 ? length - 1 : 1, block.end - block.begin > cell ? '-' : ' ');
    if (length > 1) text += ' ';
    const auto skip = static_cast<std::size_t>(std::max<std::int64_t>(0, from - block.begin));
    text = text.substr(skip, static_cast<std::size_t>(std::min(to, block.end) - std::max(from, block.begin)));
    if (colour) {
      row += fmt::format("\x1b[30;48;5;{}m{}\x1b[0m", event_style(block.kind).ansi, text);
    } else {
      row += text;
    }
    column = std::min(to, block.end);
  }
  if (column < to) row.append(static_cast<std::size_t>(to - column), '.');
  return row;
}

/// The line of times above the grid, in columns [from, to): a mark every `step` milliseconds.
std::string axis(std::int64_t from, std::int64_t to, double columns_a_ms, double step) {
  std::string row(static_cast<std::size_t>(to - from), ' ');
  for (std::int64_t k = 0;; ++k) {
    const auto column = std::llround(static_cast<double>(k) * step * columns_a_ms);
    if (column >= to) return row;
    const std::string mark = fmt::format("{:g}", static_cast<double>(k) * step);
    if (column < from || column + static_cast<std::int64_t>(mark.size()) > to) continue;
    row.replace(static_cast<std::size_t>(column - from), mark.size(), mark);
  }
}

/// A round step of time at which marks are at least 10 columns apart.
double axis_step(double columns_a_ms) {
  const double least = 10 / columns_a_ms;
  const double decade = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * decade >= least * (1 - 1e-9)) return factor * decade;
  }
  return 10 * decade;
}

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace

std::string render_text_grid(const Timeline& timeline, const TextGridOptions& options) {
  const bool with_stage = has_several_stages_a_rank(timeline);
  const Scale scale = scale_of(timeline, with_stage);
  if (scale.columns_a_ms == 0) return "(nothing to draw)\n";
  const double wall = timeline_stats(timeline).wall_ms;
  const auto num_ranks = static_cast<int>(timeline.ranks.size());
  const std::size_t name_width = fmt::format("rank {}  ", num_ranks - 1).size();
  const Window window =
      window_of(std::llround(wall * scale.columns_a_ms), options.width - static_cast<std::int64_t>(name_width));
  const double step = axis_step(scale.columns_a_ms);
  const auto line = [&](std::string_view name, auto&& part) {
    std::string text = fmt::format("{:<{}}", name, name_width) + part(0, window.head);
    if (window.cut()) text += std::string(kCut) + part(window.total - window.tail, window.total);
    return trimmed(text);
  };
  std::string grid =
      line("ms", [&](std::int64_t from, std::int64_t to) { return axis(from, to, scale.columns_a_ms, step); });
  const int shown = std::max(2, options.max_ranks);
  for (int rank = 0; rank < num_ranks; ++rank) {
    if (num_ranks > shown && rank == shown - shown / 2) {
      grid += fmt::format("...  ({} more ranks)\n", num_ranks - shown);
      rank = num_ranks - shown / 2;
    }
    const std::vector<Block> blocks =
        blocks_of(timeline.ranks[static_cast<std::size_t>(rank)], scale.columns_a_ms, with_stage);
    grid += line(fmt::format("rank {}", rank), [&](std::int64_t from, std::int64_t to) {
      return draw(blocks, from, to, scale.cell, options.colour);
    });
  }
  return grid;
}

}  // namespace ppctl
