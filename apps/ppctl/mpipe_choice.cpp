#include "mpipe_choice.hpp"

#include <algorithm>
#include <optional>
#include <tuple>

#include "arch/job_model.hpp"
#include "base/error.hpp"
#include "job_schedule.hpp"
#include "simulate/memory_report.hpp"
#include "simulate/model_costs.hpp"
#include "simulate/model_plan.hpp"
#include "simulate/simulate.hpp"

namespace ppctl {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
constexpr double kTie = 1 + 1e-4;

JobConfig with(const JobConfig& job, const MpipeConfig& mpipe) {
  JobConfig changed = job;
  changed.mpipe = mpipe;
  return changed;
}

/// `schedule: auto` leaves the encoder open too, where there is one and nothing else forbids it.
bool is_open(const JobConfig& job) {
  if (job.mpipe.enabled) return job.mpipe.is_auto();
  if (job.pipeline.schedule != "auto" || job.pipeline.post_validation || !job.sample.prompt.empty()) return false;
  try {
    return model_of_job(job).vision.has_value();
  } catch (const Error&) {
    return false;  // a plan may be of a model that is not there yet
  }
}

MpipeConfig open_mpipe(const JobConfig& job) {
  MpipeConfig mpipe = job.mpipe;
  if (mpipe.enabled) return mpipe;
  mpipe.enabled = true;
  mpipe.layers = MpipeConfig::kAutoLayers;
  mpipe.mode = "auto";
  return mpipe;
}

/// Numbers of layers that are worth a try within about a minute: each costs a search over list schedules.
int most_layers_to_try(const JobConfig& job) {
  constexpr std::int64_t kMostSteps = 2'000'000;
  const std::int64_t steps =
      std::int64_t{3} * job.parallel.pp * std::max(job.pipeline.chunks, 1) * job.num_microbatches();
  return static_cast<int>(std::clamp<std::int64_t>(kMostSteps / steps, 3, 64));
}

MpipeWay measure(const JobConfig& job) {
  const ModelSpec spec = model_of_job(job);
  const Schedule schedule = schedule_of_job(job, stage_costs_of_job(job));
  JobConfig unlimited = job;  // what fits is looked at afterwards
  unlimited.memory_gib = 0;
  const MemoryModel model = memory_model(unlimited, spec, model_plan(unlimited, spec, schedule));
  const ModelWork work = model_work(job, spec, model.activations);
  CostModel costs = model_costs(model, work);
  if (!work.in_ms) scale_times(costs, job.parallel.pp / whole_forward_ms(costs));
  set_job_links(job, costs);
  costs.offload_gbps = job.swap.bandwidth_gbps;
  return {job.mpipe, simulate(schedule, costs).wall_ms, largest_total(plan_memory(schedule, model))};
}

void sort_ways(std::vector<MpipeWay>& ways, double limit) {
  const auto does_not_fit = [limit](const MpipeWay& way) {
    return limit > 0 && static_cast<double>(way.peak_bytes) > limit;
  };
  std::ranges::stable_sort(ways, {}, &MpipeWay::step_ms);
  for (auto first = ways.begin(); first != ways.end();) {
    const double most = first->step_ms * kTie;
    const auto last = std::find_if(first, ways.end(), [most](const MpipeWay& way) { return way.step_ms > most; });
    std::stable_sort(first, last, [](const MpipeWay& a, const MpipeWay& b) {
      return std::tie(a.mpipe.enabled, a.peak_bytes) < std::tie(b.mpipe.enabled, b.peak_bytes);
    });
    first = last;
  }
  std::ranges::stable_partition(ways, [&](const MpipeWay& way) { return !does_not_fit(way); });
}

std::string row_text(const MpipeWay& way) {
  const bool on = way.mpipe.enabled;
  return fmt::format("{:<16}  {:<12}  {:>10.5g}  {:>10}", on ? layers_text(way.mpipe) : "none",
                     on ? way.mpipe.mode : "", way.step_ms, bytes_text(static_cast<double>(way.peak_bytes)));
}

}  // namespace

std::vector<MpipeConfig> mpipe_ways(const JobConfig& job, const ModelSpec& spec, int most_layers) {
  const MpipeConfig asked = open_mpipe(job);
  std::vector<int> layers{asked.layers};
  std::vector<MpipeConfig> ways;
  if (asked.layers == MpipeConfig::kAutoLayers) {
    ways.emplace_back();
    layers.clear();
    const int all = static_cast<int>(spec.num_vision_layers());
    const int steps = std::max(1, std::min(all, most_layers - 1));
    for (int i = 0; i < steps; ++i) layers.push_back(all * i / steps);
    layers.push_back(MpipeConfig::kAllLayers);
  }
  for (const int count : layers) {
    for (const char* mode : {"just_in_time", "before_body"}) {
      if (asked.mode != "auto" && asked.mode != mode) continue;
      MpipeConfig way = asked;
      way.layers = count;
      way.mode = mode;
      ways.push_back(std::move(way));
    }
  }
  return ways;
}

MpipeChoice choose_mpipe(const JobConfig& job) {
  MpipeChoice choice;
  choice.job = job;
  if (!is_open(job)) return choice;
  if (job.pipeline.schedule == "file" && !is_compute_only(read_schedule_file(job.pipeline.schedule_file))) {
    throw_error("{}: is lowered already; mpipe needs a schedule of compute steps", job.pipeline.schedule_file);
  }
  const ModelSpec spec = model_of_job(with(job, {}));
  if (!spec.vision) {
    throw job.fault("pipeline.schedule",
                    fmt::format("mpipe needs a model with an encoder, and {} has none", spec.family));
  }
  std::optional<std::string> refused;
  for (const MpipeConfig& way : mpipe_ways(job, spec, most_layers_to_try(job))) {
    try {
      choice.ways.push_back(measure(with(job, way)));
    } catch (const Error& error) {
      if (!refused) refused = error.what();
    }
  }
  if (choice.ways.empty()) throw_error("{}", *refused);
  const double limit = job.memory_gib * kGib;
  sort_ways(choice.ways, limit);
  choice.fits = limit <= 0 || static_cast<double>(choice.ways.front().peak_bytes) <= limit;
  if (!choice.fits) std::ranges::stable_sort(choice.ways, {}, &MpipeWay::peak_bytes);
  choice.job.mpipe = choice.ways.front().mpipe;
  return choice;
}

std::string mpipe_name(const MpipeConfig& mpipe) {
  return mpipe.enabled ? fmt::format("{{layers: {}, mode: {}}}", layers_text(mpipe), mpipe.mode) : "none";
}

std::string mpipe_choice_line(const MpipeChoice& choice) {
  const MpipeWay& best = choice.ways.front();
  std::string text =
      fmt::format("mpipe: auto takes {} of {} ways: {:.5g} ms a step as simulated, {} a rank", mpipe_name(best.mpipe),
                  choice.ways.size(), best.step_ms, bytes_text(static_cast<double>(best.peak_bytes)));
  if (choice.ways.size() > 1) {
    const MpipeWay& next = choice.ways[1];
    text += fmt::format("; next {}: {:.5g} ms, {}", mpipe_name(next.mpipe), next.step_ms,
                        bytes_text(static_cast<double>(next.peak_bytes)));
  }
  return text;
}

std::string mpipe_choice_table(const MpipeChoice& choice) {
  constexpr std::size_t kMostShown = 6;
  std::string text = fmt::format("{:<16}  {:<12}  {:>10}  {:>10}\n", "encoder, mpipe", "mode", "step ms", "peak");
  for (std::size_t i = 0; i < choice.ways.size(); ++i) {
    if (i < kMostShown || !choice.ways[i].mpipe.enabled) text += row_text(choice.ways[i]) + "\n";
  }
  const char* const unit = choice.job.profile.empty() ? ", where 1 ms is a rank's share of the whole forward" : "";
  return text + fmt::format("The first of {} ways is taken{}.\n\n", choice.ways.size(), unit);
}

std::string mpipe_yaml(const MpipeConfig& mpipe) {
  return mpipe.enabled ? fmt::format("mpipe: {{layers: {}, mode: {}, backward: {}}}\n", layers_text(mpipe), mpipe.mode,
                                     mpipe.backward)
                       : "";
}

}  // namespace ppctl
