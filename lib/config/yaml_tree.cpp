#include "config/yaml_tree.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "config/scalars.hpp"

namespace ppctl {
namespace {

constexpr int kDeepest = 32;

/// Turns yaml-cpp's events into a tree.
class TreeBuilder : public YAML::EventHandler {
 public:
  /// `separated`: the text has a line that begins with ---.
  TreeBuilder(int source, bool separated, Diagnostics& diagnostics)
      : source_(source), separated_(separated), diagnostics_(diagnostics) {}

  YamlPtr root() const { return root_; }
  SourceMark to_mark(const YAML::Mark& mark) const {
    return {source_, std::max(mark.line, 0) + 1, std::max(mark.column, 0) + 1};
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ == 0) return;
    diagnostics_.add(to_mark(mark), separated_ ? "a second document begins here; a job file has one"
                                               : "this does not belong to what comes before it");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    finish(make(YamlNode::Kind::kNull, mark), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found != anchors_.end()) {
      attach(found->second, to_mark(mark));
      return;
    }
    diagnostics_.add(to_mark(mark), "this alias stands inside the value that it names");
    attach(make(YamlNode::Kind::kNull, mark), to_mark(mark));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_tag(mark, tag);
    auto node = make(YamlNode::Kind::kScalar, mark);
    node->text = value;
    node->quoted = tag != "?";
    finish(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    refuse_tag(mark, tag);
    open_.push_back({make(YamlNode::Kind::kSequence, mark), anchor, std::nullopt, {}});
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    refuse_tag(mark, tag);
    open_.push_back({make(YamlNode::Kind::kMap, mark), anchor, std::nullopt, {}});
  }
  void OnMapEnd() override { close(); }

 private:
  /// A key whose value comes next.
  struct Key {
    std::string text;
    SourceMark mark;
    bool valid = true;
    bool merge = false;
  };
  /// A sequence or map that has not ended.
  struct Open {
    std::shared_ptr<YamlNode> node;
    YAML::anchor_t anchor;
    std::optional<Key> key;
    std::vector<YamlPtr> merges;
  };

  std::shared_ptr<YamlNode> make(YamlNode::Kind kind, const YAML::Mark& mark) const {
    auto node = std::make_shared<YamlNode>();
    node->kind = kind;
    node->mark = to_mark(mark);
    return node;
  }

  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag == "?" || tag == "!") return;
    diagnostics_.add(to_mark(mark), fmt::format("a job has no use for tags such as '{}'", tag));
  }

  void close() {
    Open closed = std::move(open_.back());
    open_.pop_back();
    for (const YamlPtr& merge : closed.merges) apply_merge(*closed.node, *merge);
    limit_depth(*closed.node);
    finish(std::move(closed.node), closed.anchor);
  }

  /// Aliases can nest values deeper than the text is nested, and whoever walks (or frees) the tree does so recursively.
  void limit_depth(YamlNode& node) {
    for (const YamlPtr& item : node.items) node.depth = std::max(node.depth, item->depth + 1);
    for (const YamlNode::Entry& entry : node.entries) node.depth = std::max(node.depth, entry.value->depth + 1);
    if (node.depth <= kDeepest) return;
    diagnostics_.add(node.mark, fmt::format("values are nested more than {} deep here", kDeepest));
    node.items.clear();
    node.entries.clear();
    node.depth = 0;
  }

  void finish(YamlPtr node, YAML::anchor_t anchor) {
    // Only values that have ended are known to aliases, so the tree has no cycles.
    if (anchor != YAML::NullAnchor) anchors_[anchor] = node;
    const SourceMark mark = node->mark;
    attach(std::move(node), mark);
  }

  void attach(YamlPtr node, SourceMark used_at) {
    if (open_.empty()) {
      if (!root_) root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node->kind == YamlNode::Kind::kSequence) {
      parent.node->items.push_back(std::move(node));
    } else if (!parent.key) {
      parent.key = read_key(*node, used_at);
    } else {
      add_entry(parent, std::move(node), used_at);
      parent.key.reset();
    }
  }

  Key read_key(const YamlNode& node, SourceMark mark) {
    Key key{node.text, mark, true, false};
    if (node.kind != YamlNode::Kind::kScalar) {
      diagnostics_.add(mark, "a key must be a word");
      key.valid = false;
    }
    key.merge = key.valid && !node.quoted && node.text == "<<";
    return key;
  }

  void add_entry(Open& parent, YamlPtr value, SourceMark used_at) {
    const Key& key = *parent.key;
    if (!key.valid) return;
    if (key.merge) {
      note_merges(parent, value, used_at);
      return;
    }
    std::map<std::string, SourceMark>& seen = seen_keys_[parent.node.get()];
    const auto [first, added] = seen.emplace(key.text, key.mark);
    if (!added) {
      diagnostics_.add(key.mark,
                       fmt::format("duplicate key '{}' (the first is in line {})", key.text, first->second.line));
      return;
    }
    parent.node->entries.push_back({key.text, key.mark, std::move(value)});
  }

  void note_merges(Open& parent, const YamlPtr& value, SourceMark used_at) {
    const std::vector<YamlPtr> single{value};
    for (const YamlPtr& merged : value->kind == YamlNode::Kind::kSequence ? value->items : single) {
      if (merged->kind == YamlNode::Kind::kMap) {
        parent.merges.push_back(merged);
      } else {
        diagnostics_.add(used_at, "'<<' takes a map or a list of maps");
      }
    }
  }

  /// Keys of the map itself win over merged ones, and an earlier merge over a later one.
  static void apply_merge(YamlNode& map, const YamlNode& merged) {
    std::set<std::string_view> present;
    for (const YamlNode::Entry& entry : map.entries) present.insert(entry.key);
    std::vector<YamlNode::Entry> added;
    for (const YamlNode::Entry& entry : merged.entries) {
      if (!present.contains(entry.key)) added.push_back(entry);
    }
    map.entries.insert(map.entries.end(), added.begin(), added.end());
  }

  int source_;
  bool separated_;
  Diagnostics& diagnostics_;
  YamlPtr root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, YamlPtr> anchors_;
  std::map<const YamlNode*, std::map<std::string, SourceMark>> seen_keys_;
  int documents_ = 0;
};

/// Length of the UTF-8 character that starts here, or 0 if none does.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned first = byte(0);
  const std::size_t length = first < 0x80U   ? 1
                             : first < 0xc2U ? 0
                             : first < 0xe0U ? 2
                             : first < 0xf0U ? 3
                             : first < 0xf5U ? 4
                                             : 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return 0;
  }
  return length;
}

/// Notes the first byte that no text has. yaml-cpp would replace it, or stop there without a word.
bool check_text(std::string_view text, int source, Diagnostics& diagnostics) {
  SourceMark mark{source, 1, 1};
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t length = character_length(text.substr(i));
    const bool control = (byte < 0x20U && byte != '\n' && byte != '\r' && byte != '\t') || byte == 0x7fU;
    if (length == 0 || control) {
      diagnostics.add(mark, fmt::format("byte 0x{:02x} has no place in a job file, which is UTF-8 text", byte));
      return false;
    }
    i += length;
    mark.column += static_cast<int>(length);
    if (byte == '\n') mark = {source, mark.line + 1, 1};
  }
  return true;
}

}  // namespace

const YamlNode::Entry* YamlNode::find(std::string_view key) const {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &*found;
}

YamlPtr parse_yaml(std::string_view text, int source, Diagnostics& diagnostics) {
  if (!check_text(text, source, diagnostics)) return nullptr;
  std::istringstream stream{std::string(text)};
  TreeBuilder builder(source, text.find("\n---") != std::string_view::npos, diagnostics);
  try {
    YAML::Parser parser(stream);
    // At most two: at a stray bracket yaml-cpp would begin one empty document after the other without end.
    if (parser.HandleNextDocument(builder)) parser.HandleNextDocument(builder);
  } catch (const YAML::Exception& error) {
    diagnostics.add(builder.to_mark(error.mark), fmt::format("this is not valid YAML: {}", error.msg));
    return nullptr;
  }
  return builder.root();
}

std::string describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kSequence:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a map";
    case YamlNode::Kind::kScalar:
      break;
  }
  constexpr std::size_t kShown = 40;
  std::string text = node.text.substr(0, kShown);
  if (node.text.size() > kShown) text += "...";
  std::replace(text.begin(), text.end(), '\n', ' ');
  return node.quoted ? fmt::format("the text \"{}\"", text) : fmt::format("'{}'", text);
}

std::string to_json(const YamlNode& node) {
  std::string text;
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "null";
    case YamlNode::Kind::kScalar:
      return scalar_to_json(node.text, node.quoted);
    case YamlNode::Kind::kSequence:
      for (const YamlPtr& item : node.items) text += (text.empty() ? "" : ", ") + to_json(*item);
      return "[" + text + "]";
    case YamlNode::Kind::kMap:
      break;
  }
  for (const YamlNode::Entry& entry : node.entries) {
    text += (text.empty() ? "" : ", ") + scalar_to_json(entry.key, true) + ": " + to_json(*entry.value);
  }
  return "{" + text + "}";
}

}  // namespace ppctl
