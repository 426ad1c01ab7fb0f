#include "trace/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "trace/event_names.hpp"
#include "trace/html_report.hpp"
#include "trace/timeline_stats.hpp"

namespace ppctl {
namespace {

constexpr double kLeft = 74;          // rank names
constexpr double kRight = 64;         // idle shares
constexpr double kTop = 64;           // title and legend
constexpr double kBottom = 34;        // time axis
constexpr double kStripPx = 5;        // lane 2, below the steps
constexpr double kGapPx = 5;          // between ranks
constexpr double kNarrowestPx = 0.5;  // narrower steps are merged
constexpr double kDigitPx = 6.2;      // of the label font

/// One rectangle: a step, or neighbours of one kind too narrow to be told apart.
struct Box {
  double begin = 0;
  double end = 0;
  TimelineEvent event;
  int merged = 1;
};

/// "#rrggbb" mixed with white: 0 is the colour, 1 is white.
std::string paler(std::string_view colour, double share) {
  std::string result = "#";
  for (std::size_t i = 1; i < 7; i += 2) {
    const int value = std::stoi(std::string(colour.substr(i, 2)), nullptr, 16);
    result += fmt::format("{:02x}", static_cast<int>(std::lround(value + (255 - value) * share)));
  }
  return result;
}

class SvgDrawing {
 public:
  SvgDrawing(const Timeline& timeline, const SvgOptions& options)
      : timeline_(timeline),
        options_(options),
        stats_(timeline_stats(timeline)),
        until_(options.until_ms > 0 ? options.until_ms : stats_.wall_ms),
        scale_(until_ > 0 ? (options.width_px - kLeft - kRight) / until_ : 0) {
    for (const auto& events : timeline.ranks) {
      for (const TimelineEvent& event : events) {
        if (event.lane == 1) two_threads_ = true;
        if (event.lane == 2) strip_ = true;
      }
    }
  }

  std::string draw() {
    const auto num_ranks = static_cast<int>(timeline_.ranks.size());
    const int shown = std::max(2, options_.max_ranks);
    double y = kTop;
    for (int rank = 0; rank < num_ranks; ++rank) {
      if (num_ranks > shown && rank == shown - shown / 2) {
        text(kLeft, y + 15, "start", "#8a94a0", fmt::format("{} more ranks", num_ranks - shown));
        y += 24;
        rank = num_ranks - shown / 2;
      }
      draw_rank(static_cast<std::size_t>(rank), y);
      y += rank_height() + kGapPx;
    }
    draw_axis(y);
    const std::string head = header(y + kBottom);
    return head + body_ + "</svg>\n";
  }

 private:
  double rank_height() const { return options_.row_px + (strip_ ? kStripPx + 1 : 0); }
  double x(double ms) const { return kLeft + ms * scale_; }

  void text(double px, double py, std::string_view anchor, std::string_view colour, const std::string& content) {
    body_ += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" fill="{}">{}</text>)", px, py, anchor, colour,
                         escape_xml(content));
    body_ += '\n';
  }

  std::string header(double height) {
    std::string head = fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.0f} {1:.0f}" )"
        R"(font-family="Helvetica, Arial, sans-serif" font-size="11">)",
        options_.width_px, height);
    head += "\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
    head += fmt::format(R"(<text x="{}" y="24" font-size="16" font-weight="bold" fill="#23303d">{}</text>)", kLeft,
                        escape_xml(timeline_.title));
    head += fmt::format(
        R"(<text x="{:.1f}" y="24" text-anchor="end" fill="#52606d">wall {:.4g} ms, span {:.4g} ms, bubble {:.1f}% wall, {:.1f}% span</text>)",
        options_.width_px - 8, stats_.wall_ms, stats_.span_ms, 100 * stats_.bubble_wall(), 100 * stats_.bubble_span());
    head += '\n';
    return head + legend();
  }

  std::string legend() const {
    std::map<EventKind, int> counts;
    for (const auto& events : timeline_.ranks) {
      for (const TimelineEvent& event : events) ++counts[event.kind];
    }
    std::string legend;
    double px = kLeft;
    for (const auto& [kind, count] : counts) {
      const EventStyle& style = event_style(kind);
      legend += fmt::format(R"(<rect x="{:.1f}" y="38" width="12" height="12" rx="2" fill="{}"/>)", px, style.fill);
      legend += fmt::format(R"(<text x="{:.1f}" y="48" fill="#3e4c59">{}</text>)", px + 17, style.name);
      legend += '\n';
      px += 36 + kDigitPx * static_cast<double>(style.name.size());
    }
    legend +=
        fmt::format(R"(<text x="{:.1f}" y="48" text-anchor="end" fill="#8a94a0">idle</text>)", options_.width_px - 8);
    return legend + "\n";
  }

  std::vector<Box> boxes(const std::vector<TimelineEvent>& events, int lane) const {
    std::vector<Box> result;
    for (const TimelineEvent& event : events) {
      if (event.lane != lane || event.start_ms > until_) continue;
      const double begin = x(event.start_ms);
      const double end = x(std::min(event.end_ms, until_));
      if (!result.empty() && end - begin < kNarrowestPx) {
        Box& last = result.back();
        const bool narrow = last.merged > 1 || last.end - last.begin < kNarrowestPx;
        if (narrow && last.event.kind == event.kind && begin - last.end < kNarrowestPx) {
          last.end = std::max(last.end, end);
          ++last.merged;
          continue;
        }
      }
      result.push_back({begin, end, event, 1});
    }
    return result;
  }

  void draw_box(const Box& box, double y, double height, std::string_view fill, const std::string& label) {
    const double width = std::max(box.end - box.begin, 0.3);
    // A hair of the background between neighbours, where there is room for one.
    const double gap = width > 4 ? 1.0 : 0.0;
    body_ +=
        fmt::format(R"(<g><title>{}</title><rect x="{:.2f}" y="{:.1f}" width="{:.2f}" height="{:.1f}"{} fill="{}"/>)",
                    escape_xml(description(box)), box.begin, y, width - gap, height,
                    width > 8 && height > 8 ? " rx=\"2\"" : "", fill);
    if (!label.empty() && width > kDigitPx * static_cast<double>(label.size()) + 3 && height > 9) {
      body_ += fmt::format(R"(<text x="{:.2f}" y="{:.1f}" text-anchor="middle" fill="#1f2933">{}</text>)",
                           box.begin + (width - gap) / 2, y + height / 2 + 4, label);
    }
    body_ += "</g>\n";
  }

  static std::string description(const Box& box) {
    const TimelineEvent& event = box.event;
    std::string text(event_style(event.kind).name);
    if (box.merged > 1) return fmt::format("{} steps of kind {}", box.merged, text);
    if (event.stage.valid()) text += fmt::format(", stage {}", event.stage);
    if (event.microbatch.valid()) text += fmt::format(", microbatch {}", event.microbatch);
    if (event.peer.valid())
      text += fmt::format(", {} rank {}", event.kind == EventKind::kSend ? "to" : "from", event.peer);
    return text + fmt::format(": {:.4g} to {:.4g} ms ({:.4g} ms)", event.start_ms, event.end_ms,
                              event.end_ms - event.start_ms);
  }

  void draw_rank(std::size_t rank, double y) {
    const auto& events = timeline_.ranks[rank];
    text(kLeft - 8, y + options_.row_px / 2 + 4, "end", "#3e4c59", fmt::format("rank {}", rank));
    text(options_.width_px - 8, y + options_.row_px / 2 + 4, "end", "#3e4c59",
         fmt::format("{:.1f}%", 100 * stats_.idle_share(rank)));
    body_ += fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" fill="#f4f6f8"/>)", kLeft, y,
                         options_.width_px - kLeft - kRight, rank_height());
    body_ += '\n';
    const std::map<int, double> shades = chunk_shades(events);
    for (int lane = 0; lane < 2; ++lane) {
      for (const Box& box : boxes(events, lane)) {
        const EventStyle& style = event_style(box.event.kind);
        // Lane 1 runs beside what lane 0 draws at that time: where there are two threads, pairs share the row.
        const bool pair = lane == 1 || box.event.kind == EventKind::kOverlapped;
        const double height = two_threads_ && pair ? options_.row_px / 2 : options_.row_px;
        const auto shade = shades.find(box.event.stage.value);
        const std::string fill = is_work(box.event.kind) && shade != shades.end() ? paler(style.fill, shade->second)
                                                                                  : std::string(style.fill);
        const bool numbered = is_work(box.event.kind) && box.merged == 1 && box.event.microbatch.valid();
        draw_box(box, lane == 1 ? y + options_.row_px / 2 : y, height - (pair && lane == 0 ? 0.5 : 0), fill,
                 numbered ? fmt::format("{}", box.event.microbatch) : "");
      }
    }
    for (const Box& box : boxes(events, 2)) {
      draw_box(box, y + options_.row_px + 1, kStripPx, event_style(box.event.kind).fill, "");
    }
  }

  /// Chunks of a rank in the order of their stages: the first in full colour, later ones paler.
  static std::map<int, double> chunk_shades(const std::vector<TimelineEvent>& events) {
    std::map<int, double> shades;
    for (const TimelineEvent& event : events) {
      if (is_work(event.kind) && event.stage.valid()) shades[event.stage.value] = 0;
    }
    const double step = shades.size() > 1 ? 0.55 / static_cast<double>(shades.size() - 1) : 0;
    double shade = 0;
    for (auto& [stage, value] : shades) {
      value = shade;
      shade += step;
    }
    return shades;
  }

  void draw_axis(double y) {
    if (scale_ == 0) return;
    const double least = 70 / scale_;
    const double decade = std::pow(10, std::floor(std::log10(least)));
    double step = 10 * decade;
    for (const double factor : {5.0, 2.0, 1.0}) {
      if (factor * decade >= least) step = factor * decade;
    }
    for (int mark = 0; mark * step <= until_ * (1 + 1e-9); ++mark) {
      const double px = x(mark * step);
      body_ +=
          fmt::format(R"(<line x1="{0:.1f}" y1="{1:.1f}" x2="{0:.1f}" y2="{2:.1f}" stroke="#9aa5b1"/>)", px, y, y + 5);
      text(px, y + 18, "middle", "#52606d", fmt::format("{:g}{}", mark * step, mark == 0 ? " ms" : ""));
    }
  }

  const Timeline& timeline_;
  const SvgOptions& options_;
  TimelineStats stats_;
  double until_;
  double scale_;
  bool two_threads_ = false;
  bool strip_ = false;
  std::string body_;
};

}  // namespace

std::string render_svg(const Timeline& timeline, const SvgOptions& options) {
  return SvgDrawing(timeline, options).draw();
}

}  // namespace ppctl
