#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/diagnostics.hpp"

namespace ppctl {

/// A YAML value as the loader sees it. Immutable once built: what an alias names is shared, not copied.
///
/// The tree is built from yaml-cpp's events rather than from its nodes, because YAML::Node keeps the first of two equal
/// keys without a word, leaves `<<` as an ordinary key, and has no position for what is missing.
struct YamlNode {
  enum class Kind { kNull, kScalar, kSequence, kMap };
  struct Entry {
    std::string key;
    SourceMark mark;  ///< of the key
    std::shared_ptr<const YamlNode> value;
  };

  Kind kind = Kind::kNull;
  SourceMark mark;
  std::string text;     ///< kScalar
  bool quoted = false;  ///< kScalar: written with quotes or as a block, so it is text and no number
  std::vector<std::shared_ptr<const YamlNode>> items;  ///< kSequence
  std::vector<Entry> entries;                          ///< kMap; keys are unique, merges (`<<`) applied
  int depth = 0;                                       ///< levels of lists and maps below this value

  const Entry* find(std::string_view key) const;
};

using YamlPtr = std::shared_ptr<const YamlNode>;

/// Builds the tree of one document. Notes in `diagnostics`: text that is no YAML, text that is no UTF-8, duplicate
/// keys, keys that are no plain words, tags, aliases that contain themselves, more than one document. Returns null for
/// an empty document and where the text could not be read to its end.
YamlPtr parse_yaml(std::string_view text, int source, Diagnostics& diagnostics);

/// What a value is, for messages: "a map", "a list", "nothing", "'abc'", "the text \"16\"".
std::string describe(const YamlNode& node);

/// The value as JSON text. Scalars become numbers, true, false or null where YAML 1.2 says so, otherwise strings.
std::string to_json(const YamlNode& node);

}  // namespace ppctl
