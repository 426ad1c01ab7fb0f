#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/diagnostics.hpp"
#include "config/yaml_tree.hpp"

namespace ppctl {

/// What the readers of all sections share.
struct ReadContext {
  struct UnknownKey {
    std::string section;  ///< "" for the top of the file
    std::string key;
    SourceMark mark;
    std::shared_ptr<const std::vector<std::string>> known;  ///< keys of that section
  };

  explicit ReadContext(Diagnostics& problems) : diagnostics(problems) {}

  Diagnostics& diagnostics;
  std::string folder;                       ///< absolute; what relative paths in the file are relative to
  std::vector<ConfigValue> values;          ///< every key that was read, in order
  std::map<std::string, SourceMark> marks;  ///< where the keys that the user gave have their values, by dotted key
  std::set<std::string> faulty;  ///< dotted keys with values that could not be used; checks across keys leave them out
  std::set<std::string> known;   ///< every dotted key there is
  std::vector<UnknownKey> unknown;
  std::optional<std::int64_t> num_layers;  ///< of the model, where the job says so

  bool given(const std::string& key) const { return marks.contains(key); }
  /// Where to report a problem of `key`: at its value, else at the closest section above it that the user wrote.
  SourceMark mark_of(std::string_view key) const;
  void complain(const std::string& key, std::string rule) { diagnostics.add(mark_of(key), std::move(rule)); }
  /// Reports the unknown keys, each with what was probably meant. Call once, when every section was read.
  void report_unknown_keys();
};

/// Bounds of a decimal number.
struct NumberRange {
  double min = 0;
  bool above_min = false;  ///< min itself is refused
  double max = std::numeric_limits<double>::infinity();
  bool below_max = false;  ///< max itself is refused
};

/// A cursor on one map of the job. Each read names a key, takes its value if there is one, reports what is wrong with
/// it (the field then keeps its default), and records the key's value and origin for --show-config. finish() reports
/// keys that nobody read.
class MapReader {
 public:
  /// `node` is the map, or null where the user gave none; `path` is its dotted key, "" for the top.
  MapReader(ReadContext& context, YamlPtr node, std::string path);

  /// The map below `key`; empty where there is none.
  MapReader section(std::string_view key);

  template <std::integral T>
  void integer(std::string_view key, T& field, std::int64_t min, std::int64_t max = limit<T>()) {
    if (const YamlNode* node = value(key)) {
      if (const auto read = to_integer(key, *node, min, max)) field = static_cast<T>(*read);
    }
    record(key, std::to_string(field));
  }
  void number(std::string_view key, double& field, NumberRange range);
  void boolean(std::string_view key, bool& field);
  void text(std::string_view key, std::string& field);
  /// Text that is one of `names`.
  void choice(std::string_view key, std::string& field, std::span<const std::string_view> names);
  /// A path; a relative one becomes absolute: relative to the job file, or from --set to the current directory.
  void path(std::string_view key, std::string& field);

  /// For values of several shapes: the value of `key` or null, without a report where it has no value at all.
  const YamlNode* value(std::string_view key);
  std::optional<std::int64_t> to_integer(std::string_view key, const YamlNode& node, std::int64_t min,
                                         std::int64_t max);
  std::optional<double> to_number(std::string_view key, const YamlNode& node, NumberRange range);
  std::optional<bool> to_boolean(std::string_view key, const YamlNode& node);
  std::optional<std::string> to_text(std::string_view key, const YamlNode& node);
  std::optional<std::string> to_path(std::string_view key, const YamlNode& node);
  std::optional<std::vector<int>> to_integers(std::string_view key, const YamlNode& node, int min);
  /// Reports that a value must be `expected`, not what it is.
  void refuse(std::string_view key, const YamlNode& node, std::string_view expected);
  /// The same for a value that is none of `names`, with what was probably meant.
  void refuse_name(std::string_view key, const YamlNode& node, std::span<const std::string_view> names);
  /// Notes the value of `key` for --show-config.
  void record(std::string_view key, std::string value);
  /// Reports that `key` is missing if it is. `example` says what to write.
  void require(std::string_view key, std::string_view example);

  const YamlNode* node() const { return node_.get(); }
  ReadContext& context() { return context_; }
  std::string dotted(std::string_view key) const;
  /// Declares a key that is read elsewhere, or not at all.
  void declare(std::string_view key);
  void finish();

 private:
  template <std::integral T>
  static constexpr std::int64_t limit() {
    return sizeof(T) < sizeof(std::int64_t) ? static_cast<std::int64_t>(std::numeric_limits<T>::max())
                                            : std::numeric_limits<std::int64_t>::max();
  }

  ReadContext& context_;
  YamlPtr node_;
  std::string path_;
  std::vector<std::string> known_;
};

/// A text value as --show-config prints it: quoted where it would not be seen otherwise.
std::string show_text(std::string_view text);
std::string show_list(std::span<const int> list);

}  // namespace ppctl
