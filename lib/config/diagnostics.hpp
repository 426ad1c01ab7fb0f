#pragma once

#include <compare>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/load.hpp"

namespace ppctl {

/// Where a value of the job was written: in the job file (source 0), or in the n-th `--set` (source n). Lines and
/// columns count from 1; a column is a byte. The order is that in which problems are listed.
struct SourceMark {
  int source = 0;
  int line = 1;
  int column = 1;

  friend auto operator<=>(const SourceMark&, const SourceMark&) = default;
};

/// The problems of one job. Collected, so that a user sees all of them at once.
class Diagnostics {
 public:
  /// `file` is what messages call the text. The views must outlive this object.
  Diagnostics(std::string file, std::string_view text, const std::vector<std::string>& sets)
      : file_(std::move(file)), text_(text), sets_(sets) {}

  /// Notes a problem. The same one at the same place (a value that is used twice through an alias) counts once.
  void add(SourceMark mark, std::string rule);
  bool empty() const { return problems_.empty(); }
  /// Throws ConfigError with all problems, sorted by place, if there are any.
  void throw_if_any() const;
  /// As messages name it; columns count characters.
  FilePosition position_of(SourceMark mark) const;

  const std::string& file() const { return file_; }

 private:
  struct Problem {
    SourceMark mark;
    std::string rule;
  };
  std::string source_line(int line) const;
  std::string render(const Problem& problem) const;

  std::string file_;
  std::string_view text_;
  const std::vector<std::string>& sets_;
  std::vector<Problem> problems_;
  std::set<std::pair<SourceMark, std::string>> seen_;
};

}  // namespace ppctl
