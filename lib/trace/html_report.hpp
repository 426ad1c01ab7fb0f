#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/timeline.hpp"

namespace ppctl {

/// A table of a page. Cells are plain text; those that begin like a number are aligned to the right.
struct HtmlTable {
  std::string title;
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

/// A page that needs nothing but itself: headline figures as (name, value), each timeline as a drawing whose steps
/// explain themselves under the pointer, and tables. Measured and simulated timelines can be laid one under the other
/// on one scale of time.
struct HtmlReport {
  std::string title;
  std::vector<std::pair<std::string, std::string>> figures;
  std::vector<Timeline> timelines;
  std::vector<HtmlTable> tables;
};

std::string render_html(const HtmlReport& report);

/// `text` with &, <, > and quotes as entities, for HTML and SVG.
std::string escape_xml(std::string_view text);

}  // namespace ppctl
