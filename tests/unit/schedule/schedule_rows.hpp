#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "schedule/text.hpp"

namespace ppctl::testing {

/// A schedule from its text form, one string a rank.
inline Schedule from_rows(const std::vector<std::string>& rows) {
  std::string text;
  for (const std::string& row : rows) text += row + "\n";
  return read_csv(text, "rows.csv");
}

/// The text form of a schedule, one string a rank.
inline std::vector<std::string> rows_of(const Schedule& schedule) {
  std::ostringstream out;
  write_csv(out, schedule);
  std::istringstream in(out.str());
  std::vector<std::string> rows;
  for (std::string row; std::getline(in, row);) rows.push_back(row);
  return rows;
}

}  // namespace ppctl::testing
