// The Chrome trace, the SVG and the HTML page.
#include <gtest/gtest.h>

#include <string_view>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "trace/chrome_trace.hpp"
#include "trace/html_report.hpp"
#include "trace/svg.hpp"
#include "trace/timeline_stats.hpp"

namespace ppctl {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

TimelineEvent event(EventKind kind, int stage, int microbatch, double start_ms, double end_ms, int lane = 0,
                    int peer = -1) {
  return {start_ms,          end_ms, kind, static_cast<std::uint8_t>(lane), StageId(stage), MicrobatchId(microbatch),
          PipelineRank(peer)};
}

Timeline small_timeline() {
  Timeline timeline;
  timeline.title = "a <small> one";
  timeline.ranks = {{event(EventKind::kForward, 0, 3, 0, 1), event(EventKind::kSend, 0, 3, 1, 1.5, 2, 1),
                     event(EventKind::kBackward, 0, 3, 4, 6)},
                    {event(EventKind::kWait, 1, 3, 0, 1.5, 0, 0), event(EventKind::kForward, 1, 3, 1.5, 2.5)}};
  return timeline;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(TimelineStats, CountsWorkOnlyAndTakesTheLongestSpan) {
  const TimelineStats stats = timeline_stats(small_timeline());
  EXPECT_EQ(stats.wall_ms, 6);
  EXPECT_EQ(stats.span_ms, 6);
  EXPECT_EQ(stats.ideal_ms, 3);
  EXPECT_EQ(stats.ranks[1].busy_ms, 1);
  EXPECT_EQ(stats.ranks[1].first_ms, 1.5);
  EXPECT_DOUBLE_EQ(stats.bubble_wall(), 0.5);
  EXPECT_DOUBLE_EQ(stats.idle_share(1), 5.0 / 6);
}

TEST(ChromeTrace, NamesProcessesLanesAndEvents) {
  std::ostringstream out;
  write_chrome_trace(out, small_timeline());
  const auto trace = nlohmann::json::parse(out.str());
  const auto& events = trace.at("traceEvents");
  const auto find = [&](const std::string& name) {
    return *std::find_if(events.begin(), events.end(), [&](const nlohmann::json& e) { return e.at("name") == name; });
  };
  EXPECT_EQ(find("F3 s1"),
            nlohmann::json::parse(R"({"ph":"X","name":"F3 s1","cat":"forward","pid":1,"tid":0,"ts":1500.0,
      "dur":1000.0,"args":{"stage":1,"microbatch":3}})"));
  EXPECT_EQ(find("wait for rank 0").at("args").at("peer"), 0);
  EXPECT_EQ(find("send3 s0").at("tid"), 2);
  EXPECT_EQ(find("process_name").at("args").at("name"), "rank 0");
}

TEST(ChromeTrace, KeepsSeveralTimelinesApart) {
  const std::vector<Timeline> timelines = {small_timeline(), small_timeline()};
  std::ostringstream out;
  write_chrome_trace(out, timelines);
  const auto trace = nlohmann::json::parse(out.str());
  int last = 0;
  for (const auto& e : trace.at("traceEvents")) last = std::max(last, e.at("pid").get<int>());
  EXPECT_EQ(last, 3);
  EXPECT_TRUE(contains(out.str(), "a <small> one rank 1")) << out.str();
}

TEST(Svg, DrawsABoxForEachStepAndEscapesTheTitle) {
  const std::string svg = render_svg(small_timeline());
  EXPECT_EQ(count(svg, "<g><title>"), 5U);
  EXPECT_TRUE(contains(svg, "a &lt;small&gt; one")) << svg;
  EXPECT_TRUE(contains(svg, "<title>backward, stage 0, microbatch 3: 4 to 6 ms (2 ms)</title>")) << svg;
  EXPECT_TRUE(contains(svg, ">83.3%</text>")) << svg;
  EXPECT_EQ(count(svg, "<g>"), count(svg, "</g>"));
}

TEST(Svg, MergesStepsThatAreTooNarrowToSee) {
  Timeline timeline;
  timeline.ranks.resize(1);
  for (int m = 0; m < 100'000; ++m) timeline.ranks[0].push_back(event(EventKind::kForward, 0, m, m, m + 1));
  const std::string svg = render_svg(timeline);
  EXPECT_LT(count(svg, "<rect"), 20U);
  EXPECT_TRUE(contains(svg, "100000 steps of kind forward")) << svg;
}

TEST(Svg, LeavesOutTheMiddleRanks) {
  Timeline timeline;
  for (int rank = 0; rank < 100; ++rank) timeline.ranks.push_back({event(EventKind::kForward, rank, 0, 0, 1)});
  const std::string svg = render_svg(timeline, {.max_ranks = 10});
  EXPECT_TRUE(contains(svg, "90 more ranks")) << svg;
  EXPECT_TRUE(contains(svg, ">rank 99<")) << svg;
  EXPECT_FALSE(contains(svg, ">rank 50<"));
}

TEST(Html, NeedsNothingFromTheNetwork) {
  HtmlReport report;
  report.title = "plan & run";
  report.figures = {{"wall", "6 ms"}};
  report.timelines = {small_timeline()};
  report.tables = {{"Ranks", {"rank", "note"}, {{"0", "3 for <none>"}, {"1", "-"}}}};
  const std::string html = render_html(report);
  EXPECT_TRUE(contains(html, "<title>plan &amp; run</title>")) << html;
  EXPECT_TRUE(contains(html, "<tr><td class=\"number\">0</td><td>3 for &lt;none&gt;</td></tr>")) << html;
  EXPECT_TRUE(contains(html, "<div class=\"figure\"><b>6 ms</b><span>wall</span></div>")) << html;
  // The one address is the name of SVG's vocabulary, which no viewer fetches.
  EXPECT_EQ(count(html, "http"), count(html, "xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_EQ(count(html, "<script"), 0U);
}

}  // namespace
}  // namespace ppctl
