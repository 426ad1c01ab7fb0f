#include "base/error.hpp"

namespace ppctl {
namespace {

std::string with_position(const FilePosition& position, const std::string& text) {
  if (position.line == 0) return fmt::format("{}: {}", position.file, text);
  if (position.column == 0) return fmt::format("{}:{}: {}", position.file, position.line, text);
  return fmt::format("{}:{}:{}: {}", position.file, position.line, position.column, text);
}

}  // namespace

Error::Error(FilePosition position, const std::string& text)
    : std::runtime_error(with_position(position, text)), position_(std::move(position)) {}

void throw_bug(const char* file, int line, const std::string& text) {
  throw Bug(fmt::format("{}:{}: {} (a bug in ppctl)", file, line, text));
}

}  // namespace ppctl
