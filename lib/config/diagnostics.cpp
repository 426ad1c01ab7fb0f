#include "config/diagnostics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ppctl {
namespace {

constexpr std::size_t kMostShown = 30;

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U; }

/// Characters (UTF-8 code points) in a text.
std::size_t num_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !continues_character(c); }));
}

/// A source line as a terminal can show it: no control characters, tabs as wide as the caret's blanks.
std::string printable(std::string_view line) {
  std::string shown(line);
  for (char& c : shown) {
    if (c == '\t') c = ' ';
    if (static_cast<unsigned char>(c) < 0x20U || c == 0x7f) c = '?';
  }
  return shown;
}

/// The part of a line around a column, and the caret below it. Long lines are cut on both sides.
std::string excerpt(std::string_view line, std::size_t column) {
  constexpr std::size_t kBefore = 60;
  constexpr std::size_t kWidth = 100;
  std::size_t begin = column > kBefore && line.size() > kWidth ? column - kBefore : 0;
  while (begin > 0 && continues_character(line[begin])) --begin;
  std::size_t end = std::min(line.size(), begin + kWidth);
  while (end < line.size() && continues_character(line[end])) ++end;
  const std::string_view before = begin > 0 ? "..." : "";
  const std::string_view after = end < line.size() ? "..." : "";
  const std::size_t blanks = before.size() + num_characters(line.substr(begin, column - begin));
  return fmt::format("    {}{}{}\n    {:{}}^", before, printable(line.substr(begin, end - begin)), after, "", blanks);
}

}  // namespace

void Diagnostics::add(SourceMark mark, std::string rule) {
  if (seen_.emplace(mark, rule).second) problems_.push_back({mark, std::move(rule)});
}

std::string Diagnostics::source_line(int line) const {
  std::string_view rest = text_;
  for (int i = 1; i < line; ++i) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) return {};
    rest.remove_prefix(end + 1);
  }
  std::string_view found = rest.substr(0, rest.find('\n'));
  if (found.ends_with('\r')) found.remove_suffix(1);
  return std::string(found);
}

FilePosition Diagnostics::position_of(SourceMark mark) const {
  if (mark.source > 0) {
    return {fmt::format("--set {}", printable(sets_[static_cast<std::size_t>(mark.source) - 1])), 0, 0};
  }
  const std::string line = source_line(mark.line);
  const std::size_t column = std::min(static_cast<std::size_t>(mark.column - 1), line.size());
  return {file_, mark.line, static_cast<int>(num_characters(std::string_view(line).substr(0, column))) + 1};
}

std::string Diagnostics::render(const Problem& problem) const {
  const FilePosition position = position_of(problem.mark);
  if (problem.mark.source > 0) return fmt::format("{}: {}", position.file, problem.rule);
  const std::string line = source_line(problem.mark.line);
  const std::size_t column = std::min(static_cast<std::size_t>(problem.mark.column - 1), line.size());
  std::string text = fmt::format("{}:{}:{}: error: {}", position.file, position.line, position.column, problem.rule);
  if (!line.empty()) text.append("\n").append(excerpt(line, column));
  return text;
}

void Diagnostics::throw_if_any() const {
  if (problems_.empty()) return;
  std::vector<Problem> sorted = problems_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Problem& a, const Problem& b) { return a.mark < b.mark; });
  std::string text;
  for (std::size_t i = 0; i < std::min(sorted.size(), kMostShown); ++i) {
    if (i > 0) text += "\n";
    text += render(sorted[i]);
  }
  if (sorted.size() > kMostShown) text += fmt::format("\n... and {} more", sorted.size() - kMostShown);
  throw ConfigError(position_of(sorted.front().mark), static_cast<int>(sorted.size()), text);
}

}  // namespace ppctl
