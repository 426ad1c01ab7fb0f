#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "config/sections.hpp"

namespace ppctl {
namespace {

constexpr int kMostChunks = 65'535;

bool is_word(const YamlNode* node, std::string_view word) {
  return node != nullptr && node->kind == YamlNode::Kind::kScalar && node->text == word;
}

/// A name, or {file: schedule.csv}.
void read_schedule(MapReader& map, PipelineConfig& pipeline, const ScheduleRules& schedules) {
  const YamlNode* node = map.value("schedule");
  if (node != nullptr && node->kind == YamlNode::Kind::kMap) {
    MapReader below = map.section("schedule");
    below.require("file", "schedule: {file: schedule.csv}");
    below.path("file", pipeline.schedule_file);
    below.finish();
    pipeline.schedule = "file";
    return;
  }
  if (node != nullptr) {
    const std::vector<std::string_view> names(schedules.names.begin(), schedules.names.end());
    const bool known = names.empty() || std::find(names.begin(), names.end(), node->text) != names.end();
    if (node->kind != YamlNode::Kind::kScalar) {
      map.refuse("schedule", *node, "the name of a schedule or {file: schedule.csv}");
    } else if (is_word(node, "file")) {
      map.refuse("schedule", *node, "{file: schedule.csv} where it is read from a file");
    } else if (!known) {
      map.refuse_name("schedule", *node, names);
    } else {
      pipeline.schedule = node->text;
    }
  }
  map.record("schedule", show_text(pipeline.schedule));
}

/// A number, or auto.
void read_auto_integer(MapReader& map, std::string_view key, int& field, int min, int max) {
  if (const YamlNode* node = map.value(key); node != nullptr && !is_word(node, "auto")) {
    field = static_cast<int>(map.to_integer(key, *node, min, max).value_or(field));
  }
  map.record(key, field == 0 ? "auto" : std::to_string(field));
}

/// uniform, auto, or the number of layers of each stage.
void read_layers(MapReader& map, PipelineConfig& pipeline) {
  static constexpr std::array kWords{std::string_view("uniform"), std::string_view("auto"),
                                     std::string_view("a list with the number of layers of each stage")};
  if (const YamlNode* node = map.value("layers")) {
    if (is_word(node, "uniform") || is_word(node, "auto")) {
      pipeline.layers = node->text;
    } else if (node->kind == YamlNode::Kind::kSequence) {
      pipeline.layers = "list";
      pipeline.layer_counts = map.to_integers("layers", *node, 0).value_or(std::vector<int>());
    } else {
      map.refuse_name("layers", *node, kWords);
    }
  }
  map.record("layers", pipeline.layers == "list" ? show_list(pipeline.layer_counts) : pipeline.layers);
}

void read_duplex(MapReader& map, std::optional<bool>& duplex) {
  if (const YamlNode* node = map.value("duplex"); node != nullptr && !is_word(node, "auto")) {
    if (node->kind == YamlNode::Kind::kScalar && (node->text == "true" || node->text == "false")) {
      duplex = node->text == "true";
    } else {
      map.refuse("duplex", *node, "true, false or auto");
    }
  }
  map.record("duplex", !duplex ? "auto" : *duplex ? "true" : "false");
}

/// `pairs: [{from: 0, to: 1, latency_us: 50, bandwidth_gbps: 1}]`
void read_link_pairs(MapReader& map, std::vector<LinkPairConfig>& pairs) {
  const YamlNode* node = map.value("pairs");
  if (node == nullptr) {
    map.record("pairs", "[]");
    return;
  }
  if (node->kind != YamlNode::Kind::kSequence) {
    map.refuse("pairs", *node, "a list such as [{from: 0, to: 1, latency_us: 50}]");
    return;
  }
  for (std::size_t i = 0; i < node->items.size(); ++i) {
    const YamlPtr& item = node->items[i];
    const std::string path = map.dotted(fmt::format("pairs[{}]", i));
    map.context().marks[path] = item->mark;
    if (item->kind != YamlNode::Kind::kMap) {
      map.refuse(fmt::format("pairs[{}]", i), *item, "a map such as {from: 0, to: 1, latency_us: 50}");
      continue;
    }
    MapReader below(map.context(), item, path);
    LinkPairConfig& pair = pairs.emplace_back();
    for (const char* key : {"from", "to"}) below.require(key, "{from: 0, to: 1, latency_us: 50}");
    below.integer("from", pair.from, 0);
    below.integer("to", pair.to, 0);
    below.number("latency_us", pair.latency_us, {.min = 0});
    below.number("bandwidth_gbps", pair.bandwidth_gbps, {.min = 0});
    below.finish();
  }
}

}  // namespace

void read_pipeline(MapReader& job, PipelineConfig& pipeline, const ScheduleRules& schedules) {
  MapReader map = job.section("pipeline");
  read_schedule(map, pipeline, schedules);
  read_auto_integer(map, "chunks", pipeline.chunks, 1, kMostChunks);
  read_layers(map, pipeline);
  map.boolean("overlap_p2p", pipeline.overlap_p2p);
  map.boolean("overlap_b_f", pipeline.overlap_b_f);
  read_duplex(map, pipeline.duplex);
  map.boolean("split_backward", pipeline.split_backward);
  read_auto_integer(map, "group", pipeline.group, 1, kMostChunks);
  map.boolean("less_memory", pipeline.less_memory);
  map.number("memory_limit", pipeline.memory_limit, {.min = 0});
  map.boolean("post_validation", pipeline.post_validation);
  map.finish();
}

void read_mpipe(MapReader& job, MpipeConfig& mpipe, const ScheduleRules& schedules) {
  static constexpr std::array kModes{std::string_view("before_body"), std::string_view("just_in_time"),
                                     std::string_view("auto")};
  static constexpr std::array kBackwards{std::string_view("owner"), std::string_view("recompute")};
  MapReader map = job.section("mpipe");
  mpipe.enabled = map.node() != nullptr;
  if (const YamlNode* node = map.value("layers"); is_word(node, "auto")) {
    mpipe.layers = MpipeConfig::kAutoLayers;
  } else if (node != nullptr && !is_word(node, "all")) {
    mpipe.layers = static_cast<int>(map.to_integer("layers", *node, 0, kMostChunks).value_or(mpipe.layers));
  }
  map.record("layers", layers_text(mpipe));
  map.choice("mode", mpipe.mode, kModes);
  map.choice("backward", mpipe.backward, kBackwards);
  std::vector<std::string_view> bodies(schedules.names.begin(), schedules.names.end());
  std::erase(bodies, "mpipe_transpose");
  bodies.empty() ? map.text("body", mpipe.body) : map.choice("body", mpipe.body, bodies);
  map.finish();
}

void read_fsdp(MapReader& job, FsdpConfig& fsdp) {
  static constexpr std::array kReduce{std::string_view("step"), std::string_view("microbatch")};
  MapReader map = job.section("fsdp");
  map.choice("reduce", fsdp.reduce, kReduce);
  map.boolean("reshard_after_forward", fsdp.reshard_after_forward);
  map.finish();
}

void read_precision(MapReader& job, PrecisionConfig& precision) {
  static constexpr std::array kDtypes{std::string_view("float32"), std::string_view("bfloat16")};
  MapReader map = job.section("precision");
  map.choice("param", precision.param, kDtypes);
  map.choice("reduce", precision.reduce, kDtypes);
  map.finish();
}

void read_recompute(MapReader& job, RecomputeConfig& recompute) {
  static constexpr std::array kShapes{std::string_view("none"), std::string_view("full"),
                                      std::string_view("a map such as {attention: true, every: 2}")};
  const YamlNode* node = job.value("recompute");
  if (node != nullptr && node->kind != YamlNode::Kind::kMap) {
    if (is_word(node, "none") || is_word(node, "full")) {
      recompute.full = node->text == "full";
    } else {
      job.refuse_name("recompute", *node, kShapes);
    }
    job.record("recompute", recompute.full ? "full" : "none");
    return;
  }
  if (node == nullptr) {
    job.record("recompute", "none");
    return;
  }
  MapReader map = job.section("recompute");
  map.boolean("attention", recompute.attention);
  map.boolean("mlp", recompute.mlp);
  // A map that names no part, {every: 2}, is about whole layers.
  recompute.full = !recompute.attention && !recompute.mlp;
  map.boolean("full", recompute.full);
  map.integer("every", recompute.every, 1);
  if (const YamlNode* list = map.value("stages")) {
    recompute.stages = map.to_integers("stages", *list, 0).value_or(std::vector<int>());
  }
  map.record("stages", recompute.stages.empty() ? "all" : show_list(recompute.stages));
  map.finish();
}

void read_swap(MapReader& job, SwapConfig& swap) {
  static constexpr std::array kTiers{std::string_view("host"), std::string_view("file")};
  static constexpr std::array kLayers{std::string_view("all"), std::string_view("auto"),
                                      std::string_view("a list of layer numbers")};
  MapReader map = job.section("swap");
  if (const YamlNode* node = map.value("layers")) {
    if (is_word(node, "all") || is_word(node, "auto")) {
      swap.layers = node->text;
    } else if (node->kind == YamlNode::Kind::kSequence) {
      swap.layers = "list";
      swap.layer_list = map.to_integers("layers", *node, 0).value_or(std::vector<int>());
    } else {
      map.refuse_name("layers", *node, kLayers);
    }
  }
  map.record("layers", swap.layers == "list" ? show_list(swap.layer_list) : show_text(swap.layers));
  map.choice("tier", swap.tier, kTiers);
  map.path("folder", swap.folder);
  map.number("limit_gib", swap.limit_gib, {.min = 0});
  map.boolean("direct", swap.direct);
  map.number("bandwidth_gbps", swap.bandwidth_gbps, {.min = 0});
  map.integer("distance", swap.distance, 3);
  map.finish();
}

void read_link(MapReader& job, LinkConfig& link) {
  MapReader map = job.section("link");
  map.number("latency_us", link.latency_us, {.min = 0});
  map.number("bandwidth_gbps", link.bandwidth_gbps, {.min = 0});
  map.boolean("rendezvous", link.rendezvous);
  read_link_pairs(map, link.pairs);
  map.finish();
}

}  // namespace ppctl
