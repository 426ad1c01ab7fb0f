#pragma once

#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace ppctl {

// Options of `ppctl bench` travel to the engine as text.

/// The parts of a list, "a,b,c".
inline std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

/// A finite number of at least `least`; an Error that names the option where it is none.
template <class Number>
Number number_option(const std::string& option, const std::string& text, Number least) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // "nan" and "inf" are numbers to from_chars.
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value < least) {
    throw_error("--{} {}: a number of at least {} is wanted", option, text, least);
  }
  return value;
}

/// text or json.
inline bool wants_json(const std::string& format) {
  if (format != "text" && format != "json") throw_error("--format {}: text or json", format);
  return format == "json";
}

}  // namespace ppctl
