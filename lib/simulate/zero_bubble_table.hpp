#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ppctl {

/// One row of the zero-bubble paper's tables (arXiv 2401.10241, table 9 joined to table 5) beside what ppctl's
/// schedules come to.
///
/// A rate is (cost - m (T_F + T_B + T_W)) / cost, where cost is the wall time for 1f1b, 1f1b_i and zb_h1, and the
/// longest span of a rank for zb_h2 and zb_2p. Costs are in ms a stage and microbatch; v chunks cost 1/v each; a
/// dependency that crosses ranks adds `p2p`.
struct ZeroBubbleRow {
  std::string model;
  int pp = 0;
  int num_microbatches = 0;
  int chunks = 0;
  double forward = 0;
  double dx = 0;
  double dw = 0;
  double p2p = 0;

  struct Rates {
    double one_f_one_b = 0;
    double interleaved = 0;  ///< the paper's column 1f1b_i_exact: all dependencies between chunks are kept
    double zb_h1 = 0;
    double zb_h2 = 0;
    std::optional<double> zb_1p;  ///< auto within p microbatches; the paper's tables have no such column
    std::optional<double> zb_2p;  ///< auto within 2p microbatches
  };
  Rates paper;
  Rates ours;  ///< filled by simulate_zero_bubble_row
};

/// Reads the CSV: comment lines begin with '#', then a line of column names. `file` is what messages say. Throws Error
/// with file:line.
std::vector<ZeroBubbleRow> read_zero_bubble_csv(std::string_view text, const std::string& file);

/// Fills `ours` by generating and simulating each schedule. `search` false leaves out zb_1p and zb_2p, whose search
/// takes seconds at 32 ranks.
void simulate_zero_bubble_row(ZeroBubbleRow& row, bool search = true);

/// The rows as a Markdown table: for each schedule the paper's rate and ours.
std::string zero_bubble_markdown(const std::vector<ZeroBubbleRow>& rows);

}  // namespace ppctl
