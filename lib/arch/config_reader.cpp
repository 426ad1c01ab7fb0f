#include "arch/config_reader.hpp"

#include <utility>

namespace ppctl {

ConfigReader::ConfigReader(const nlohmann::json& object, std::string origin, std::string prefix)
    : object_(object), origin_(std::move(origin)), prefix_(std::move(prefix)) {
  PPCTL_CHECK(object_.is_object(), "{} is read as an object", prefix_);
}

bool ConfigReader::has(const std::string& key) const { return object_.contains(key) && !object_.at(key).is_null(); }

void ConfigReader::fail(const std::string& key, const std::string& rule) const {
  throw_error("{}: {}{} {}", origin_, prefix_, key, rule);
}

const nlohmann::json& ConfigReader::at(const std::string& key) const {
  if (!has(key)) fail(key, "is missing");
  return object_.at(key);
}

std::int64_t ConfigReader::integer(const std::string& key) const {
  const nlohmann::json& value = at(key);
  if (!value.is_number_integer()) fail(key, fmt::format("must be an integer; it is {}", value.dump()));
  return value.get<std::int64_t>();
}

std::int64_t ConfigReader::integer(const std::string& key, std::int64_t fallback) const {
  return has(key) ? integer(key) : fallback;
}

std::int64_t ConfigReader::positive(const std::string& key) const {
  const std::int64_t value = integer(key);
  if (value < 1) fail(key, fmt::format("must be at least 1; it is {}", value));
  return value;
}

std::int64_t ConfigReader::positive(const std::string& key, std::int64_t fallback) const {
  return has(key) ? positive(key) : fallback;
}

double ConfigReader::number(const std::string& key) const {
  const nlohmann::json& value = at(key);
  if (!value.is_number()) fail(key, fmt::format("must be a number; it is {}", value.dump()));
  return value.get<double>();
}

double ConfigReader::number(const std::string& key, double fallback) const { return has(key) ? number(key) : fallback; }

double ConfigReader::probability(const std::string& key, double fallback) const {
  const double value = number(key, fallback);
  if (!(value >= 0.0 && value < 1.0)) fail(key, fmt::format("must be at least 0 and below 1; it is {}", value));
  return value;
}

bool ConfigReader::boolean(const std::string& key, bool fallback) const {
  if (!has(key)) return fallback;
  const nlohmann::json& value = at(key);
  if (!value.is_boolean()) fail(key, fmt::format("must be true or false; it is {}", value.dump()));
  return value.get<bool>();
}

std::string ConfigReader::text(const std::string& key, const std::string& fallback) const {
  if (!has(key)) return fallback;
  const nlohmann::json& value = at(key);
  if (!value.is_string()) fail(key, fmt::format("must be a text; it is {}", value.dump()));
  return value.get<std::string>();
}

std::vector<double> ConfigReader::numbers(const std::string& key) const {
  const nlohmann::json& value = at(key);
  if (!value.is_array()) fail(key, fmt::format("must be a list of numbers; it is {}", value.dump()));
  std::vector<double> result;
  for (const nlohmann::json& element : value) {
    if (!element.is_number()) fail(key, fmt::format("must be a list of numbers; it has {}", element.dump()));
    result.push_back(element.get<double>());
  }
  return result;
}

ConfigReader ConfigReader::child(const std::string& key) const {
  if (!at(key).is_object()) fail(key, fmt::format("must be an object; it is {}", at(key).dump()));
  return {at(key), origin_, prefix_ + key + "."};
}

}  // namespace ppctl
