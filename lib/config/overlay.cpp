#include "config/overlay.hpp"

#include <algorithm>
#include <utility>

namespace ppctl {
namespace {

/// Copies the maps on the way to the key; everything beside the way is shared with the old tree, since aliases may name
/// it too.
YamlPtr with_value(const YamlPtr& node, std::string_view path, YamlPtr value, SourceMark mark) {
  auto map = std::make_shared<YamlNode>();
  map->mark = mark;
  if (node && node->kind == YamlNode::Kind::kMap) *map = *node;
  map->kind = YamlNode::Kind::kMap;

  const std::size_t dot = path.find('.');
  const std::string key(path.substr(0, dot));
  auto place =
      std::find_if(map->entries.begin(), map->entries.end(), [&](const YamlNode::Entry& e) { return e.key == key; });
  if (dot == std::string_view::npos) {
    if (place == map->entries.end()) {
      map->entries.push_back({key, mark, std::move(value)});
    } else {
      *place = {key, mark, std::move(value)};
    }
    return map;
  }
  const YamlPtr below = place == map->entries.end() ? nullptr : place->value;
  YamlPtr changed = with_value(below, path.substr(dot + 1), std::move(value), mark);
  if (place == map->entries.end()) {
    map->entries.push_back({key, mark, std::move(changed)});
  } else {
    place->value = std::move(changed);
  }
  return map;
}

bool is_key_path(std::string_view path) {
  return !path.empty() && path.front() != '.' && path.back() != '.' && path.find("..") == std::string_view::npos &&
         path.find_first_of(" \t\n") == std::string_view::npos;
}

}  // namespace

YamlPtr apply_set(const YamlPtr& root, const std::string& set, int source, Diagnostics& diagnostics) {
  const SourceMark mark{source, 1, 1};
  const std::string_view text = set;
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || !is_key_path(text.substr(0, equals))) {
    diagnostics.add(mark, "write it as key=value, where key is like pipeline.schedule");
    return root;
  }
  const std::string_view path = text.substr(0, equals);
  constexpr std::ptrdiff_t kMostDots = 8;
  if (std::count(path.begin(), path.end(), '.') > kMostDots) {
    diagnostics.add(mark, "no key of a job is so deep");
    return root;
  }
  const std::string_view value_text = text.substr(equals + 1);
  YamlPtr value = parse_yaml(value_text, source, diagnostics);
  if (!value) {
    // An empty document is an empty value; a broken one is noted already.
    if (value_text.find_first_not_of(" \t") != std::string_view::npos) return root;
    auto nothing = std::make_shared<YamlNode>();
    nothing->mark = mark;
    value = std::move(nothing);
  }
  return with_value(root, path, std::move(value), mark);
}

}  // namespace ppctl
