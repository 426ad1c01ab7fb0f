#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "config/sections.hpp"

namespace ppctl {
namespace {

/// One path or a list of them.
void read_paths(MapReader& map, std::vector<std::string>& paths) {
  map.require("path", "path: tokens.bin");
  if (const YamlNode* node = map.value("path")) {
    const auto add = [&](const YamlNode& item) {
      if (const auto path = map.to_path("path", item)) paths.push_back(*path);
    };
    if (node->kind != YamlNode::Kind::kSequence) add(*node);
    for (const YamlPtr& item : node->items) add(*item);
    if (node->kind == YamlNode::Kind::kSequence && node->items.empty()) map.refuse("path", *node, "at least one path");
  }
  map.record("path", paths.size() == 1 ? show_text(paths[0]) : fmt::format("[{}]", fmt::join(paths, ", ")));
}

}  // namespace

void read_data(MapReader& job, DataConfig& data) {
  static constexpr std::array kKinds{std::string_view("text"), std::string_view("tokens")};
  static constexpr std::array kTokenTypes{std::string_view("uint16"), std::string_view("uint32")};
  static constexpr std::array kOrders{std::string_view("sequential"), std::string_view("shuffled")};
  constexpr std::int64_t kLongest = std::int64_t{1} << 24;
  MapReader map = job.section("data");
  map.choice("kind", data.kind, kKinds);
  read_paths(map, data.path);
  map.path("pixels", data.pixels);
  map.path("images", data.images);
  map.number("images_per_sample", data.images_per_sample, {.min = 0});
  map.choice("token_dtype", data.token_dtype, kTokenTypes);
  map.integer("sequence_length", data.sequence_length, 1, kLongest);
  map.integer("stride", data.stride, 0, kLongest);
  map.choice("order", data.order, kOrders);
  map.number("eval_fraction", data.eval_fraction, {.min = 0, .max = 1, .below_max = true});
  map.finish();
}

void read_batch(MapReader& job, BatchConfig& batch) {
  constexpr std::int64_t kMostMicrobatches = 16'777'215;  // what a step of a schedule can name
  MapReader map = job.section("batch");
  map.require("global_size", "global_size: 16");
  map.integer("global_size", batch.global_size, 1);
  // One of the two on the command line replaces the other one of the file: a user who tries another number means that.
  const YamlNode::Entry* size = map.node() != nullptr ? map.node()->find("microbatch_size") : nullptr;
  const YamlNode::Entry* count = map.node() != nullptr ? map.node()->find("microbatches") : nullptr;
  const bool both = size != nullptr && count != nullptr;
  const bool size_replaced = both && size->mark.source == 0 && count->mark.source > 0;
  const bool count_replaced = both && size->mark.source > 0 && count->mark.source == 0;
  map.declare("microbatch_size");
  map.declare("microbatches");
  if (!size_replaced) map.integer("microbatch_size", batch.microbatch_size, 1);
  if (!count_replaced) map.integer("microbatches", batch.microbatches, 1, kMostMicrobatches);
  map.finish();
}

void read_parallel(MapReader& job, ParallelConfig& parallel) {
  constexpr int kMostRanks = 65'535;
  MapReader map = job.section("parallel");
  map.integer("pp", parallel.pp, 1, kMostRanks);
  map.integer("dp_replicate", parallel.dp_replicate, 1, kMostRanks);
  map.integer("dp_shard", parallel.dp_shard, 1, kMostRanks);
  map.integer("ep", parallel.ep, 1, kMostRanks);
  map.finish();
}

}  // namespace ppctl
