#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ppctl {

/// Whether the text is digits only after a sign, with a leading zero: 010, which YAML 1.1 reads as 8 and YAML 1.2
/// as 10.
bool looks_octal(std::string_view text);

/// A whole number in decimal digits. Nothing else: no hexadecimal, no octal, no fraction, no underscores.
std::optional<std::int64_t> parse_integer(std::string_view text);
/// A finite decimal number, with or without fraction and exponent.
std::optional<double> parse_number(std::string_view text);
/// true or false (also True, TRUE); nothing else, for `no` and `off` mean different things to different readers.
std::optional<bool> parse_boolean(std::string_view text);

/// The scalar as JSON: a number, true or false where it reads as one and is not quoted; otherwise a string.
std::string scalar_to_json(std::string_view text, bool quoted);

}  // namespace ppctl
