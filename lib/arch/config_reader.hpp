#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace ppctl {

/// Reads the keys of a config.json with checks; each failure is an Error that names file and key:
/// "config.json: hidden_size is missing". A key whose value is null counts as missing. Keeps a reference.
class ConfigReader {
 public:
  /// `prefix` stands before keys in messages ("rope_parameters.").
  ConfigReader(const nlohmann::json& object, std::string origin, std::string prefix = "");

  bool has(const std::string& key) const;
  std::int64_t integer(const std::string& key) const;
  std::int64_t integer(const std::string& key, std::int64_t fallback) const;
  /// An integer of at least 1.
  std::int64_t positive(const std::string& key) const;
  std::int64_t positive(const std::string& key, std::int64_t fallback) const;
  double number(const std::string& key) const;
  double number(const std::string& key, double fallback) const;
  /// A number in [0, 1).
  double probability(const std::string& key, double fallback) const;
  bool boolean(const std::string& key, bool fallback) const;
  std::string text(const std::string& key, const std::string& fallback) const;
  std::vector<double> numbers(const std::string& key) const;
  /// A reader of the object at `key`. REQUIRES: has(key).
  ConfigReader child(const std::string& key) const;

  const nlohmann::json& object() const { return object_; }

  /// Throws "origin: key rule".
  [[noreturn]] void fail(const std::string& key, const std::string& rule) const;

 private:
  const nlohmann::json& at(const std::string& key) const;

  const nlohmann::json& object_;
  std::string origin_;
  std::string prefix_;
};

}  // namespace ppctl
