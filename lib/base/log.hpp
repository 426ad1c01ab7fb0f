#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace ppctl {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

/// Sets what log lines say of their origin and which are shown. `prefix` is e.g. "rank 2". Call once, before threads
/// start. Rank 0 of a job shows kInfo and above, the others kWarn and above.
void configure_log(std::string_view prefix, LogLevel threshold);

/// Whether a line of this level would be shown.
bool log_enabled(LogLevel level);

/// Writes one line to standard error. Thread-safe. The facade keeps spdlog (and its fmt) out of every other file.
void log_line(LogLevel level, std::string_view text);

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kDebug)) log_line(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kInfo)) log_line(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_warn(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kWarn)) log_line(LogLevel::kWarn, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kError)) log_line(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace ppctl
