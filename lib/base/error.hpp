#pragma once

#include <fmt/format.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace ppctl {

/// A place in a file of the user's. Lines and columns count from 1; 0 means unknown.
struct FilePosition {
  std::string file;
  int line = 0;
  int column = 0;
};

/// The user's fault, or the machine's (a full disk, a dead rank): what() is one clear text that says what is wrong and
/// what to do. Thrown by every layer, caught in apps/ alone, which turns it into an exit code.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& text) : std::runtime_error(text) {}
  /// `text` is prefixed with file:line:column.
  Error(FilePosition position, const std::string& text);
  /// `text` is the whole text, which names the position itself.
  Error(const std::string& text, FilePosition position) : std::runtime_error(text), position_(std::move(position)) {}

  const std::optional<FilePosition>& position() const { return position_; }

 private:
  std::optional<FilePosition> position_;
};

/// A broken invariant of ppctl itself. what() names the source line.
class Bug : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

template <class... Args>
[[noreturn]] void throw_error(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// What the check macros call. Not for direct use.
[[noreturn]] void throw_bug(const char* file, int line, const std::string& text);

}  // namespace ppctl

/// Checks an invariant of ppctl; throws Bug with the condition and a formatted text.
#define PPCTL_CHECK(condition, ...)                                                                   \
  do {                                                                                                \
    if (!(condition)) [[unlikely]]                                                                    \
      ::ppctl::throw_bug(__FILE__, __LINE__,                                                          \
                         std::string("check failed: " #condition ": ") + ::fmt::format(__VA_ARGS__)); \
  } while (false)

/// Checks that two values are equal; throws Bug that prints both.
#define PPCTL_CHECK_EQ(a, b)                                                                           \
  do {                                                                                                 \
    const auto& ppctl_a = (a);                                                                         \
    const auto& ppctl_b = (b);                                                                         \
    if (!(ppctl_a == ppctl_b)) [[unlikely]]                                                            \
      ::ppctl::throw_bug(__FILE__, __LINE__,                                                           \
                         ::fmt::format("check failed: " #a " == " #b ": {} vs {}", ppctl_a, ppctl_b)); \
  } while (false)
