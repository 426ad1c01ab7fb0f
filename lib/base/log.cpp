#include "base/log.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace ppctl {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

spdlog::logger& logger() {
  static const auto instance = [] {
    auto created = std::make_shared<spdlog::logger>("ppctl", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    created->set_pattern("%^%l%$: %v");
    created->set_level(spdlog::level::info);
    created->flush_on(spdlog::level::debug);
    return created;
  }();
  return *instance;
}

}  // namespace

void configure_log(std::string_view prefix, LogLevel threshold) {
  const std::string origin = prefix.empty() ? "" : std::string(prefix) + ": ";
  logger().set_pattern("%H:%M:%S " + origin + "%^%l%$: %v");
  logger().set_level(to_spdlog(threshold));
}

bool log_enabled(LogLevel level) { return logger().should_log(to_spdlog(level)); }

void log_line(LogLevel level, std::string_view text) {
  logger().log(to_spdlog(level), spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace ppctl
