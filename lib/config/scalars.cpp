#include "config/scalars.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace ppctl {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view without_plus(std::string_view text) {
  if (text.starts_with('+') && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  return text;
}

std::string json_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20U) {
      quoted += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace

bool looks_octal(std::string_view text) {
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && std::all_of(text.begin(), text.end(), is_digit);
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  if (looks_octal(text)) return std::nullopt;
  text = without_plus(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_number(std::string_view text) {
  if (looks_octal(text)) return std::nullopt;
  text = without_plus(text);
  // from_chars also reads "inf", "nan" and "infinity".
  if (std::none_of(text.begin(), text.end(), is_digit)) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<bool> parse_boolean(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return std::nullopt;
}

std::string scalar_to_json(std::string_view text, bool quoted) {
  if (quoted) return json_string(text);
  if (const auto integer = parse_integer(text)) return fmt::format("{}", *integer);
  if (const auto number = parse_number(text)) return fmt::format("{}", *number);
  if (const auto boolean = parse_boolean(text)) return *boolean ? "true" : "false";
  return json_string(text);
}

}  // namespace ppctl
