#include "trace/html_report.hpp"

#include <algorithm>
#include <cctype>

#include "trace/svg.hpp"
#include "trace/timeline_stats.hpp"

namespace ppctl {
namespace {

constexpr std::string_view kStyle = R"(
body { font: 14px/1.5 Helvetica, Arial, sans-serif; color: #23303d; background: #f4f6f8; margin: 0; }
main { max-width: 1480px; margin: 0 auto; padding: 28px 24px 60px; }
h1 { font-size: 24px; margin: 0 0 18px; }
h2 { font-size: 16px; margin: 28px 0 10px; }
.figures { display: flex; flex-wrap: wrap; gap: 12px; }
.figure { background: #fff; border: 1px solid #dde3e9; border-radius: 8px; padding: 10px 18px; }
.figure b { display: block; font-size: 20px; font-weight: 600; }
.figure span { color: #66788a; font-size: 12px; }
.drawing, .table { background: #fff; border: 1px solid #dde3e9; border-radius: 8px; padding: 10px; overflow-x: auto; }
.drawing { margin-top: 16px; }
.table { display: inline-block; max-width: 100%; box-sizing: border-box; }
.drawing g:hover rect { stroke: #23303d; stroke-width: 1; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 14px; text-align: left; border-bottom: 1px solid #edf0f3; white-space: nowrap; }
th { color: #66788a; font-weight: 500; font-size: 12px; }
tr:last-child td { border-bottom: none; }
.number { text-align: right; }
)";

/// "12", "-0.5", "7.1%", "2.24 GiB"; not a sentence that begins with a number.
bool is_number(const std::string& cell) {
  const std::size_t first = cell.size() > 1 && cell[0] == '-' ? 1 : 0;
  return !cell.empty() && std::isdigit(static_cast<unsigned char>(cell[first])) != 0 &&
         std::count(cell.begin(), cell.end(), ' ') <= 1;
}

/// A column is one of numbers if all of its cells are (a dash stands for none).
bool is_number_column(const HtmlTable& table, std::size_t column) {
  return std::all_of(table.rows.begin(), table.rows.end(), [&](const std::vector<std::string>& row) {
    return column >= row.size() || row[column] == "-" || is_number(row[column]);
  });
}

std::string table_html(const HtmlTable& table) {
  std::string html = "<h2>" + escape_xml(table.title) + "</h2>\n<div class=\"table\"><table>\n<tr>";
  const auto cell = [&](std::string_view tag, std::size_t column, const std::string& text) {
    html.append("<").append(tag).append(is_number_column(table, column) ? " class=\"number\">" : ">");
    html.append(escape_xml(text)).append("</").append(tag).append(">");
  };
  for (std::size_t column = 0; column < table.header.size(); ++column) cell("th", column, table.header[column]);
  html += "</tr>\n";
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (std::size_t column = 0; column < row.size(); ++column) cell("td", column, row[column]);
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

}  // namespace

std::string escape_xml(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string render_html(const HtmlReport& report) {
  std::string html = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>";
  html.append(escape_xml(report.title))
      .append("</title>\n<style>")
      .append(kStyle)
      .append("</style>\n</head>\n<body>\n");
  html.append("<main>\n<h1>").append(escape_xml(report.title)).append("</h1>\n<div class=\"figures\">\n");
  for (const auto& [name, value] : report.figures) {
    html.append("<div class=\"figure\"><b>").append(escape_xml(value)).append("</b><span>");
    html.append(escape_xml(name)).append("</span></div>\n");
  }
  html += "</div>\n";
  SvgOptions options;
  for (const Timeline& timeline : report.timelines) {
    options.until_ms = std::max(options.until_ms, timeline_stats(timeline).wall_ms);
  }
  for (const Timeline& timeline : report.timelines) {
    html.append("<div class=\"drawing\">\n").append(render_svg(timeline, options)).append("</div>\n");
  }
  for (const HtmlTable& table : report.tables) html += table_html(table);
  return html + "</main>\n</body>\n</html>\n";
}

}  // namespace ppctl
