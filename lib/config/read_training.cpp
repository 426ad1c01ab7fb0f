#include <fmt/format.h>

#include <array>

#include "config/sections.hpp"

namespace ppctl {
namespace {

/// Two numbers of at least 0 and below 1.
void read_betas(MapReader& map, OptimizerConfig& optimizer) {
  if (const YamlNode* node = map.value("betas")) {
    constexpr NumberRange kRange{.min = 0, .max = 1, .below_max = true};
    if (node->kind != YamlNode::Kind::kSequence || node->items.size() != 2) {
      map.refuse("betas", *node, "a list of two numbers such as [0.9, 0.95]");
    } else {
      optimizer.beta1 = map.to_number("betas", *node->items[0], kRange).value_or(optimizer.beta1);
      optimizer.beta2 = map.to_number("betas", *node->items[1], kRange).value_or(optimizer.beta2);
    }
  }
  map.record("betas", fmt::format("[{}, {}]", optimizer.beta1, optimizer.beta2));
}

}  // namespace

void read_optimizer(MapReader& job, OptimizerConfig& optimizer) {
  static constexpr std::array kNames{std::string_view("adamw")};
  static constexpr std::array kDecay{std::string_view("all"), std::string_view("matrices")};
  MapReader map = job.section("optimizer");
  map.choice("name", optimizer.name, kNames);
  map.number("lr", optimizer.lr, {.min = 0});
  read_betas(map, optimizer);
  map.number("eps", optimizer.eps, {.min = 0, .above_min = true});
  map.number("weight_decay", optimizer.weight_decay, {.min = 0});
  map.choice("decay", optimizer.decay, kDecay);
  map.number("clip_norm", optimizer.clip_norm, {.min = 0});
  map.boolean("skip_nonfinite", optimizer.skip_nonfinite);
  map.finish();
}

void read_lr_schedule(MapReader& job, LrScheduleConfig& lr_schedule) {
  static constexpr std::array kKinds{std::string_view("constant"), std::string_view("linear"),
                                     std::string_view("cosine"), std::string_view("wsd")};
  MapReader map = job.section("lr_schedule");
  map.choice("kind", lr_schedule.kind, kKinds);
  map.integer("warmup_steps", lr_schedule.warmup_steps, 0);
  map.integer("total_steps", lr_schedule.total_steps, 0);
  map.number("final_ratio", lr_schedule.final_ratio, {.min = 0, .max = 1});
  map.integer("decay_steps", lr_schedule.decay_steps, 0);
  map.finish();
}

void read_checkpoint(MapReader& job, CheckpointConfig& checkpoint) {
  static constexpr std::array kExport{std::string_view("never"), std::string_view("final")};
  MapReader map = job.section("checkpoint");
  map.path("folder", checkpoint.folder);
  map.integer("every", checkpoint.every, 0);
  map.integer("keep", checkpoint.keep, 1);
  map.choice("export", checkpoint.export_when, kExport);
  map.boolean("resume", checkpoint.resume);
  map.boolean("asynchronous", checkpoint.asynchronous);
  map.finish();
}

void read_eval(MapReader& job, EvalConfig& eval) {
  MapReader map = job.section("eval");
  map.integer("every", eval.every, 0);
  map.integer("batches", eval.batches, 1);
  map.finish();
}

void read_log(MapReader& job, LogConfig& log) {
  MapReader map = job.section("log");
  map.path("json", log.json);
  map.integer("every", log.every, 1);
  map.boolean("memory", log.memory);
  map.finish();
}

void read_sample(MapReader& job, SampleConfig& sample) {
  MapReader map = job.section("sample");
  map.text("prompt", sample.prompt);
  map.integer("tokens", sample.tokens, 1);
  map.number("temperature", sample.temperature, {.min = 0});
  map.integer("top_k", sample.top_k, 0);
  map.finish();
}

}  // namespace ppctl
