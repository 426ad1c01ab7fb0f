#include "config/map_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/did_you_mean.hpp"
#include "config/scalars.hpp"

namespace ppctl {
namespace {

std::string describe_range(NumberRange range) {
  const std::string lower = fmt::format("{} {}", range.above_min ? "above" : "of at least", range.min);
  if (std::isinf(range.max)) return "a number " + lower;
  return fmt::format("a number {} and {} {}", lower, range.below_max ? "below" : "at most", range.max);
}

bool inside(double value, NumberRange range) {
  const bool low = range.above_min ? value <= range.min : value < range.min;
  const bool high = range.below_max ? value >= range.max : value > range.max;
  return !low && !high;
}

std::vector<std::string_view> views(const std::vector<std::string>& names) { return {names.begin(), names.end()}; }

std::string_view last_component(std::string_view key) { return key.substr(key.rfind('.') + 1); }

}  // namespace

SourceMark ReadContext::mark_of(std::string_view key) const {
  for (std::string_view at = key;; at = at.substr(0, at.rfind('.'))) {
    const auto found = marks.find(std::string(at));
    if (found != marks.end()) return found->second;
    if (at.find('.') == std::string_view::npos) return {};
  }
}

void ReadContext::report_unknown_keys() {
  for (const UnknownKey& found : unknown) {
    std::string hint = did_you_mean(found.key, views(*found.known));
    if (hint.empty()) {
      const auto same = [&](const std::string& key) { return last_component(key) == found.key; };
      const auto elsewhere = std::find_if(known.begin(), known.end(), same);
      const bool at_top = elsewhere != known.end() && *elsewhere == found.key;
      if (elsewhere != known.end()) {
        hint = at_top ? " (it is a key of the job itself, outside of the sections)"
                      : fmt::format(" (did you mean '{}'?)", *elsewhere);
      }
    }
    constexpr std::size_t kFew = 12;
    if (hint.empty() && found.known->size() <= kFew)
      hint = fmt::format(" (its keys: {})", fmt::join(*found.known, ", "));
    const std::string where = found.section.empty() ? "" : fmt::format(" in '{}'", found.section);
    diagnostics.add(found.mark, fmt::format("unknown key '{}'{}{}", found.key, where, hint));
  }
}

MapReader::MapReader(ReadContext& context, YamlPtr node, std::string path)
    : context_(context), node_(std::move(node)), path_(std::move(path)) {}

std::string MapReader::dotted(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void MapReader::declare(std::string_view key) {
  known_.emplace_back(key);
  context_.known.insert(dotted(key));
}

MapReader MapReader::section(std::string_view key) {
  declare(key);
  const YamlNode::Entry* entry = node_ ? node_->find(key) : nullptr;
  YamlPtr below;
  if (entry != nullptr) {
    context_.marks[dotted(key)] = entry->mark;
    // `eval:` with every key below it commented out is an empty section.
    if (entry->value->kind == YamlNode::Kind::kMap) {
      below = entry->value;
    } else if (entry->value->kind != YamlNode::Kind::kNull) {
      refuse(key, *entry->value, "a map");
    }
  }
  return {context_, std::move(below), dotted(key)};
}

const YamlNode* MapReader::value(std::string_view key) {
  declare(key);
  const YamlNode::Entry* entry = node_ ? node_->find(key) : nullptr;
  if (entry == nullptr) return nullptr;
  if (entry->value->kind == YamlNode::Kind::kNull) {
    context_.diagnostics.add(entry->mark, fmt::format("'{}' has no value", dotted(key)));
    context_.marks[dotted(key)] = entry->mark;
    context_.faulty.insert(dotted(key));
    return nullptr;
  }
  context_.marks[dotted(key)] = entry->value->mark;
  return entry->value.get();
}

void MapReader::refuse(std::string_view key, const YamlNode& node, std::string_view expected) {
  context_.diagnostics.add(node.mark, fmt::format("'{}' must be {}, not {}", dotted(key), expected, describe(node)));
  context_.faulty.insert(dotted(key));
}

void MapReader::refuse_name(std::string_view key, const YamlNode& node, std::span<const std::string_view> names) {
  const std::string hint = node.kind == YamlNode::Kind::kScalar ? did_you_mean(node.text, names) : "";
  const std::string last = names.size() > 1 ? fmt::format(" or {}", names.back()) : "";
  const std::string list =
      fmt::format("{}{}", fmt::join(names.first(std::max<std::size_t>(names.size() - 1, 1)), ", "), last);
  context_.diagnostics.add(node.mark,
                           fmt::format("'{}' must be {}, not {}{}", dotted(key), list, describe(node), hint));
  context_.faulty.insert(dotted(key));
}

std::optional<std::int64_t> MapReader::to_integer(std::string_view key, const YamlNode& node, std::int64_t min,
                                                  std::int64_t max) {
  const bool plain = node.kind == YamlNode::Kind::kScalar && !node.quoted;
  if (plain && looks_octal(node.text)) {
    refuse(key, node, "a whole number without leading zeros");
    return std::nullopt;
  }
  const auto read = plain ? parse_integer(node.text) : std::nullopt;
  if (read && *read >= min && *read <= max) return read;
  const bool too_large = read && *read > max;
  const bool narrow = max < std::numeric_limits<int>::max();
  refuse(key, node,
         too_large || narrow ? fmt::format("a whole number from {} to {}", min, max)
                             : fmt::format("a whole number of at least {}", min));
  return std::nullopt;
}

std::optional<double> MapReader::to_number(std::string_view key, const YamlNode& node, NumberRange range) {
  const bool plain = node.kind == YamlNode::Kind::kScalar && !node.quoted;
  const auto read = plain ? parse_number(node.text) : std::nullopt;
  if (read && inside(*read, range)) return read;
  refuse(key, node, describe_range(range));
  return std::nullopt;
}

std::optional<bool> MapReader::to_boolean(std::string_view key, const YamlNode& node) {
  const bool plain = node.kind == YamlNode::Kind::kScalar && !node.quoted;
  const auto read = plain ? parse_boolean(node.text) : std::nullopt;
  if (!read) refuse(key, node, "true or false");
  return read;
}

std::optional<std::string> MapReader::to_text(std::string_view key, const YamlNode& node) {
  if (node.kind == YamlNode::Kind::kScalar) return node.text;
  refuse(key, node, "text");
  return std::nullopt;
}

std::optional<std::string> MapReader::to_path(std::string_view key, const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kScalar) {
    refuse(key, node, "a path");
    return std::nullopt;
  }
  const std::filesystem::path given(node.text);
  if (given.empty() || given.is_absolute()) return given.lexically_normal().string();
  const std::filesystem::path base =
      node.mark.source > 0 ? std::filesystem::current_path() : std::filesystem::path(context_.folder);
  return (base / given).lexically_normal().string();
}

std::optional<std::vector<int>> MapReader::to_integers(std::string_view key, const YamlNode& node, int min) {
  std::vector<int> list;
  bool good = true;
  for (const YamlPtr& item : node.items) {
    const auto read = to_integer(key, *item, min, std::numeric_limits<int>::max());
    good = good && read.has_value();
    list.push_back(static_cast<int>(read.value_or(0)));
  }
  if (good && list.empty()) refuse(key, node, "a list with at least one number");
  if (!good || list.empty()) return std::nullopt;
  return list;
}

void MapReader::number(std::string_view key, double& field, NumberRange range) {
  if (const YamlNode* node = value(key)) field = to_number(key, *node, range).value_or(field);
  record(key, fmt::format("{}", field));
}

void MapReader::boolean(std::string_view key, bool& field) {
  if (const YamlNode* node = value(key)) field = to_boolean(key, *node).value_or(field);
  record(key, field ? "true" : "false");
}

void MapReader::text(std::string_view key, std::string& field) {
  if (const YamlNode* node = value(key)) field = to_text(key, *node).value_or(field);
  record(key, show_text(field));
}

void MapReader::choice(std::string_view key, std::string& field, std::span<const std::string_view> names) {
  if (const YamlNode* node = value(key)) {
    if (node->kind == YamlNode::Kind::kScalar && std::find(names.begin(), names.end(), node->text) != names.end()) {
      field = node->text;
    } else {
      refuse_name(key, *node, names);
    }
  }
  record(key, show_text(field));
}

void MapReader::path(std::string_view key, std::string& field) {
  if (const YamlNode* node = value(key)) field = to_path(key, *node).value_or(field);
  record(key, show_text(field));
}

void MapReader::record(std::string_view key, std::string value) {
  ConfigOrigin origin;
  const auto found = context_.marks.find(dotted(key));
  if (found != context_.marks.end() && found->second.source > 0) {
    origin.kind = ConfigOrigin::Kind::kCommandLine;
  } else if (found != context_.marks.end()) {
    origin = {ConfigOrigin::Kind::kFile, context_.diagnostics.file(), found->second.line};
  }
  context_.values.push_back({dotted(key), std::move(value), std::move(origin)});
}

void MapReader::require(std::string_view key, std::string_view example) {
  if (node_ && node_->find(key) != nullptr) return;
  context_.complain(dotted(key), fmt::format("missing key '{}', for example {}", dotted(key), example));
  context_.faulty.insert(dotted(key));
}

void MapReader::finish() {
  if (!node_) return;
  const auto known = std::make_shared<const std::vector<std::string>>(known_);
  for (const YamlNode::Entry& entry : node_->entries) {
    // Keys of the top that begin so are the user's own: a place for anchors.
    const bool user_owned = path_.empty() && entry.key.starts_with("x-");
    if (user_owned || std::find(known_.begin(), known_.end(), entry.key) != known_.end()) continue;
    context_.unknown.push_back({path_, entry.key, entry.mark, known});
  }
}

std::string show_text(std::string_view text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) > 0x20U && c != '"' && c != '\\';
  });
  return plain ? std::string(text) : scalar_to_json(text, true);
}

std::string show_list(std::span<const int> list) { return fmt::format("[{}]", fmt::join(list, ", ")); }

}  // namespace ppctl
