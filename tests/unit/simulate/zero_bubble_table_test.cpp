#include "simulate/zero_bubble_table.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "base/error.hpp"
#include "schedule/generator.hpp"

namespace ppctl {
namespace {

constexpr double kTolerance = 2e-4;

std::vector<ZeroBubbleRow> paper_rows() {
  const std::string file = PPCTL_SOURCE_DIR "/tests/data/zero_bubble_t5_t9.csv";
  std::ifstream in(file);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  return read_zero_bubble_csv(text, file);
}

TEST(ZeroBubbleTable, ReproducesThePaperForEveryRow) {
  std::vector<ZeroBubbleRow> rows = paper_rows();
  ASSERT_EQ(rows.size(), 12U);
  for (ZeroBubbleRow& row : rows) {
    simulate_zero_bubble_row(row, false);
    const std::string where = fmt::format("{} m={}", row.model, row.num_microbatches);
    EXPECT_NEAR(row.ours.one_f_one_b, row.paper.one_f_one_b, kTolerance) << where;
    EXPECT_NEAR(row.ours.interleaved, row.paper.interleaved, kTolerance) << where;
    EXPECT_NEAR(row.ours.zb_h1, row.paper.zb_h1, kTolerance) << where;
    EXPECT_NEAR(row.ours.zb_h2, row.paper.zb_h2, kTolerance) << where;
  }
}

TEST(ZeroBubbleTable, SearchIsAtOrBelowThePaperWithinItsMemory) {
  constexpr double kRounding = 5e-5;  // the paper prints four digits
  std::vector<ZeroBubbleRow> rows = paper_rows();
  for (ZeroBubbleRow& row : rows) {
    simulate_zero_bubble_row(row);
    const std::string where = fmt::format("{} m={}", row.model, row.num_microbatches);
    EXPECT_LE(row.ours.zb_2p.value(), row.paper.zb_2p.value() + kRounding) << where;
    EXPECT_LE(row.ours.zb_1p.value(), row.ours.zb_h1 + 1e-9) << where;
  }
}

TEST(ZeroBubbleTable, NamesTheLineThatItCannotRead) {
  try {
    read_zero_bubble_csv("# a comment\nmodel,p\nsmall,2,3\n", "table.csv");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "table.csv:3: 3 cells in a table of 2 columns");
  }
  EXPECT_THROW(read_zero_bubble_csv("# nothing\n", "table.csv"), Error);
}

TEST(ZeroBubbleTable, WritesMarkdownWithADashForWhatWasNotSearched) {
  std::vector<ZeroBubbleRow> rows = {paper_rows()[0]};
  simulate_zero_bubble_row(rows[0], false);
  const std::string text = zero_bubble_markdown(rows);
  EXPECT_EQ(
      text.substr(text.find("| 1.5B")),
      "| 1.5B | 8 | 24 | 3 | 0.2431 | 0.2431 | 0.1090 | 0.1090 | 0.1585 | 0.1585 | 0.1083 | 0.1083 | - | 0.0433 | - "
      "|\n");
}

}  // namespace
}  // namespace ppctl
