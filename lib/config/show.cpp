#include <fmt/format.h>

#include <algorithm>

#include "config/load.hpp"

namespace ppctl {
namespace {

std::string describe(const ConfigOrigin& origin) {
  switch (origin.kind) {
    case ConfigOrigin::Kind::kDefault:
      return "default";
    case ConfigOrigin::Kind::kFile:
      return fmt::format("{}:{}", origin.file, origin.line);
    case ConfigOrigin::Kind::kCommandLine:
      return "command line";
  }
  return "";
}

}  // namespace

std::string show_config(const LoadedConfig& config) {
  std::size_t key_width = 3;
  std::size_t value_width = 5;
  for (const ConfigValue& value : config.values) {
    key_width = std::max(key_width, value.key.size());
    value_width = std::max(value_width, value.value.size());
  }
  std::string text = fmt::format("{:{}}  {:{}}  {}\n", "key", key_width, "value", value_width, "origin");
  for (const ConfigValue& value : config.values) {
    text += fmt::format("{:{}}  {:{}}  {}\n", value.key, key_width, value.value, value_width, describe(value.origin));
  }
  return text;
}

}  // namespace ppctl
