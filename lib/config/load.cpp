#include "config/load.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "config/overlay.hpp"
#include "config/sections.hpp"

namespace ppctl {
namespace {

constexpr std::size_t kLargestFile = std::size_t{1} << 20;

std::string read_whole_file(const std::string& file) {
  if (std::filesystem::is_directory(file)) throw_error("{}: is a folder; a job is a YAML file", file);
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw_error("{}: cannot be opened: {}", file, std::strerror(errno));
  std::string text(kLargestFile + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) throw_error("{}: cannot be read: {}", file, std::strerror(errno));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > kLargestFile) throw_error("{}: is longer than 1 MiB; a job file is a page or two of YAML", file);
  return text;
}

}  // namespace

void read_job(MapReader& job, JobConfig& config, const ScheduleRules& schedules) {
  static constexpr std::string_view kDevices[] = {"cpu", "cuda"};
  constexpr int kMostThreads = 4096;
  job.text("name", config.name);
  job.integer("seed", config.seed, 0);
  job.integer("steps", config.steps, 0);
  job.integer("stop_tokens", config.stop_tokens, 0);
  job.integer("accumulate", config.accumulate, 1);
  job.integer("threads", config.threads, 1, kMostThreads);
  job.choice("device", config.device, kDevices);
  job.number("timeout_s", config.timeout_s, {.min = 0, .above_min = true});
  job.number("memory_gib", config.memory_gib, {.min = 0});
  job.path("profile", config.profile);
  read_model(job, config.model);
  read_data(job, config.data);
  read_batch(job, config.batch);
  read_parallel(job, config.parallel);
  read_pipeline(job, config.pipeline, schedules);
  read_mpipe(job, config.mpipe, schedules);
  if (config.pipeline.schedule == "mpipe_transpose") {
    config.mpipe.enabled = true;
    config.pipeline.schedule = config.mpipe.body;
  }
  read_fsdp(job, config.fsdp);
  read_precision(job, config.precision);
  read_recompute(job, config.recompute);
  read_swap(job, config.swap);
  read_link(job, config.link);
  read_optimizer(job, config.optimizer);
  read_lr_schedule(job, config.lr_schedule);
  read_checkpoint(job, config.checkpoint);
  read_eval(job, config.eval);
  read_log(job, config.log);
  read_sample(job, config.sample);
  job.finish();
}

LoadedConfig parse_config(const std::string& text, const std::string& file, const std::vector<std::string>& sets,
                          const ScheduleRules& schedules, JobUse use) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  std::string_view body = text;
  if (body.starts_with(kByteOrderMark)) body.remove_prefix(kByteOrderMark.size());

  Diagnostics diagnostics(file, body, sets);
  YamlPtr root = parse_yaml(body, 0, diagnostics);
  // What follows would only report the consequences of text that is no YAML.
  diagnostics.throw_if_any();
  if (!root || root->kind == YamlNode::Kind::kNull) {
    diagnostics.add({}, "the file is empty; a job has at least 'model', 'data', 'batch' and 'steps'");
  } else if (root->kind != YamlNode::Kind::kMap) {
    diagnostics.add(root->mark, fmt::format("a job is a map of keys such as 'model', not {}", describe(*root)));
  }
  diagnostics.throw_if_any();
  for (std::size_t i = 0; i < sets.size(); ++i) root = apply_set(root, sets[i], static_cast<int>(i) + 1, diagnostics);

  ReadContext context(diagnostics);
  context.folder = std::filesystem::absolute(file).parent_path().string();
  LoadedConfig loaded;
  loaded.job.file = file;
  MapReader job(context, root, "");
  read_job(job, loaded.job, schedules);
  context.report_unknown_keys();
  check_job(loaded.job, schedules, use, context);
  diagnostics.throw_if_any();
  loaded.values = std::move(context.values);
  for (const auto& [key, mark] : context.marks) loaded.job.places.emplace(key, diagnostics.position_of(mark));
  loaded.job.text = show_config(loaded);
  return loaded;
}

LoadedConfig load_config(const std::string& file, const std::vector<std::string>& sets, const ScheduleRules& schedules,
                         JobUse use) {
  return parse_config(read_whole_file(file), file, sets, schedules, use);
}

}  // namespace ppctl
