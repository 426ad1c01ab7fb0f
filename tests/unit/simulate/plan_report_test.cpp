#include "simulate/plan_report.hpp"

#include <gtest/gtest.h>

#include <string_view>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "schedule/generator.hpp"
#include "schedule/pass.hpp"
#include "simulate/compare.hpp"

namespace ppctl {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

PlanReport small_report() {
  ScheduleSpec spec;
  spec.name = "1f1b";
  spec.pp = 2;
  spec.num_microbatches = 2;
  Schedule schedule = generate_schedule(spec);
  lower_schedule(schedule, {});
  return make_plan_report(schedule, uniform_costs(2, {}));
}

CompareRequest small_request() {
  CompareRequest request;
  request.pp = 4;
  request.num_microbatches = 8;
  request.costs = uniform_costs(4, {.activation_bytes = 1024.0 * 1024 * 1024});
  request.schedules = {"gpipe", "1f1b", "interleaved_1f1b", "zb_h1"};
  return request;
}

TEST(PlanReport, IsReadableAsText) {
  EXPECT_EQ(plan_text(small_report()),
            "1f1b: 2 ranks, 1 chunk a rank (loop placement), 2 microbatches\n"
            "time:    wall 9 ms, longest span 9 ms, work of the busiest rank 6 ms\n"
            "bubble:  wall 3 ms (33.33%), span 3 ms (33.33%)\n"
            "theory:  wall 3 ms (33.33%), span 3 ms (33.33%) = (p-1)(F+B); peak 2 chunks = min(m, p)\n"
            "peak:    2 chunks (2 microbatches) on the worst rank\n"
            "steps:   16; 4 messages between ranks in 8 calls, 0 of them duplex batches\n"
            "passes:  communication\n"
            "\n"
            "rank  busy ms  span ms   idle  peak chunks  warm-up ms  drain ms  waits, ms\n"
            "   0        6        9  33.3%            2           0         0  3 for rank 1\n"
            "   1        6        6  33.3%            1           1         2  -\n"
            "\n"
            "ms      0              5\n"
            "rank 0  F0 F1 ......B0--- ...B1---\n"
            "rank 1  ...F0 B0--- F1 B1--- ......\n");
}

TEST(PlanReport, HasTheContractsFieldsAsJson) {
  const auto json = nlohmann::json::parse(plan_json(small_report()));
  EXPECT_EQ(json.at("schedule"), "1f1b");
  EXPECT_EQ(json.at("pp"), 2);
  EXPECT_EQ(json.at("chunks"), 1);
  EXPECT_EQ(json.at("microbatches"), 2);
  EXPECT_EQ(json.at("wall_ms"), 9);
  EXPECT_EQ(json.at("span_ms"), 9);
  EXPECT_EQ(json.at("ideal_ms"), 6);
  EXPECT_DOUBLE_EQ(json.at("bubble_wall"), 1.0 / 3);
  EXPECT_DOUBLE_EQ(json.at("bubble_span"), 1.0 / 3);
  EXPECT_EQ(json.at("peak_chunks"), nlohmann::json({2, 1}));
  EXPECT_EQ(json.at("steps"), 16);
  EXPECT_EQ(json.at("idle")[0].at("waits"), nlohmann::json::parse(R"([{"rank":1,"ms":3.0}])"));
  EXPECT_EQ(json.at("theory").at("peak_chunks"), 2);
}

TEST(PlanReport, SaysInHtmlWhatItSaysInText) {
  const std::string html = plan_html(small_report());
  EXPECT_TRUE(contains(html, "<b>33.33%</b><span>bubble of the wall</span>")) << html;
  EXPECT_TRUE(contains(html, "(p-1)(F+B)")) << html;
  EXPECT_TRUE(contains(html, "<svg")) << html;
}

TEST(PlanReport, LeavesOutTheTheoryWhereStagesDiffer) {
  ScheduleSpec spec;
  spec.name = "gpipe";
  spec.pp = 2;
  spec.num_microbatches = 2;
  CostModel costs = uniform_costs(2, {});
  costs.stages[1].forward_ms = 3;
  const PlanReport report = make_plan_report(generate_schedule(spec), costs, false);
  EXPECT_FALSE(report.theory);
  EXPECT_EQ(report.simulation.ideal_ms, 10);
  EXPECT_TRUE(report.simulation.timeline.ranks.empty());
}

TEST(CostModel, KeepsTheSumOverStagesInAnotherCut) {
  CostModel costs = uniform_costs(3, {});
  costs.stages[0] = {.forward_ms = 4, .dx_ms = 6, .dw_ms = 8, .activation_bytes = 100};
  for (const int num_stages : {1, 2, 3, 4, 6, 7, 12}) {
    const CostModel other = resplit_costs(costs, num_stages);
    ASSERT_EQ(other.stages.size(), static_cast<std::size_t>(num_stages));
    double forward = 0;
    double bytes = 0;
    for (const StageCosts& stage : other.stages) {
      forward += stage.forward_ms;
      bytes += stage.activation_bytes;
    }
    EXPECT_NEAR(forward, 6, 1e-12) << num_stages;
    EXPECT_NEAR(bytes, 100, 1e-9) << num_stages;
  }
}

TEST(Compare, PutsTheFastestFirstAndTheRefusedLast) {
  CompareRequest request = small_request();
  request.schedules.push_back("dualpipe");
  request.num_microbatches = 5;
  const std::vector<ComparisonRow> rows = compare_schedules(request);
  ASSERT_EQ(rows.size(), 5U);
  for (std::size_t i = 1; i + 1 < rows.size(); ++i) EXPECT_LE(rows[i - 1].step_ms, rows[i].step_ms);
  EXPECT_EQ(rows.back().schedule, "dualpipe");
  ASSERT_TRUE(rows.back().refused);
  EXPECT_TRUE(contains(comparison_text(rows), "refused: " + *rows.back().refused));
}

TEST(Compare, ComparesDifferentNumbersOfChunksOnTheSameModel) {
  CompareRequest request = small_request();
  request.schedules = {"1f1b", "interleaved_1f1b"};
  request.chunks = {2, 3};
  const std::vector<ComparisonRow> rows = compare_schedules(request);
  ASSERT_EQ(rows.size(), 3U);  // 1f1b has one chunk, whatever is asked for
  const auto json = nlohmann::json::parse(comparison_json(rows));
  for (const auto& row : json) {
    if (row.at("schedule") == "interleaved_1f1b") {
      const double expected = 24 + 9.0 / row.at("chunks").get<int>();
      EXPECT_NEAR(row.at("step_ms"), expected, 1e-9);
    }
  }
}

TEST(Compare, FindsTheFastestScheduleThatFits) {
  const std::vector<ComparisonRow> rows = compare_schedules(small_request());
  constexpr double kGib = 1024.0 * 1024 * 1024;
  EXPECT_EQ(best_fit(rows, 100 * kGib).schedule, "zb_h1");
  EXPECT_EQ(best_fit(rows, 4 * kGib).schedule, "zb_h1");
  try {
    best_fit(rows, 1 * kGib);
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(contains(error.what(), "no schedule fits in 1.00 GiB a rank; the leanest, ")) << error.what();
    EXPECT_TRUE(contains(error.what(), "needs 4.00 GiB")) << error.what();
  }
}

TEST(Compare, RefusesANameThatNoGeneratorHas) {
  CompareRequest request = small_request();
  request.schedules = {"2f2b"};
  EXPECT_THROW(compare_schedules(request), Error);
}

}  // namespace
}  // namespace ppctl
