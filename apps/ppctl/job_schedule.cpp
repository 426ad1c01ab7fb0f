#include "job_schedule.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "arch/job_model.hpp"
#include "base/did_you_mean.hpp"
#include "base/error.hpp"
#include "schedule/text.hpp"
#include "schedule/verify.hpp"
#include "simulate/model_costs.hpp"

namespace ppctl {
namespace {

void check_fits(const Schedule& schedule, const JobConfig& job) {
  if (schedule.pp() != job.parallel.pp) {
    throw_error("{}: a schedule for {} ranks, but parallel.pp is {}", job.pipeline.schedule_file, schedule.pp(),
                job.parallel.pp);
  }
  if (schedule.num_microbatches != job.num_microbatches()) {
    throw_error("{}: a schedule for {} microbatches, but a replica has {} a step", job.pipeline.schedule_file,
                schedule.num_microbatches, job.num_microbatches());
  }
}

/// PyTorch writes FSDP steps into every schedule with communication; where nothing is sharded they mean nothing.
void drop_fsdp_steps(Schedule& schedule) {
  for (RankSteps& rank : schedule.ranks) {
    std::erase_if(rank.steps, [](MetaStep step) {
      return step.type() == MetaStepType::UNSHARD || step.type() == MetaStepType::RESHARD ||
             step.type() == MetaStepType::REDUCE_GRAD;
    });
  }
}

/// How the job transposes its encoder; off without mpipe.
MpipeOptions mpipe_options(const JobConfig& job, const Placement& placement) {
  MpipeOptions options;
  options.enabled = job.mpipe.enabled;
  if (!options.enabled) return options;
  const ModelSpec spec = model_of_job(job);
  const MemoryModel model = memory_model(job, spec, layers_per_stage(job, spec, placement));
  const CostModel costs = model_costs(model, model_work(job, spec, model.activations));
  options.encodes = spec.transposed_layers >= 0;
  options.trains = spec.vision && spec.vision->training == VisionSpec::Training::kAll;
  options.just_in_time = job.mpipe.mode == "just_in_time";
  options.forward = costs.encoder_forward_ms;
  options.splits_backward = options.trains;
  options.dx = costs.encoder_dx_ms;
  options.dw = costs.encoder_dw_ms;
  options.stages = chunk_costs(costs);
  return options;
}

bool has_step(const Schedule& schedule, bool (*wanted)(MetaStepType)) {
  return std::ranges::any_of(schedule.ranks, [&](const RankSteps& rank) {
    return std::ranges::any_of(rank.steps, [&](MetaStep step) { return wanted(step.type()); });
  });
}

}  // namespace

void check_encoder_steps(const Schedule& schedule, const JobConfig& job, const std::string& file) {
  const bool transposes = has_step(schedule, is_preprocess);
  if (transposes && !job.mpipe.enabled) {
    throw_error("{}: has steps of MPipe; the job that runs them says how: mpipe: {{layers: all}}", file);
  }
  if (!transposes && job.mpipe.enabled) {
    throw_error("{}: is lowered already, without steps of MPipe; mpipe needs them, or a schedule of compute steps",
                file);
  }
  if (!transposes) return;
  const ModelSpec spec = model_of_job(job);
  const bool encodes = spec.transposed_layers >= 0;
  const bool trains = encodes && spec.vision && spec.vision->training == VisionSpec::Training::kAll;
  const auto compare = [&](bool (*wanted)(MetaStepType), bool asked, const char* what) {
    const bool has = has_step(schedule, wanted);
    if (has == asked) return;
    throw_error("{}: has {}steps for the encoder's {}, and the job (mpipe.layers, model.encoder) wants {}", file,
                has ? "" : "no ", what, asked ? "them" : "none");
  };
  compare([](MetaStepType type) { return type == MetaStepType::PREPROCESS_FORWARD; }, encodes, "forward");
  compare(takes_feature_grads, trains, "backward");
}

ScheduleSpec schedule_spec(const JobConfig& job) {
  ScheduleSpec spec;
  spec.name = job.pipeline.schedule;
  spec.pp = job.parallel.pp;
  spec.chunks = job.pipeline.chunks;
  spec.num_microbatches = job.num_microbatches();
  spec.group = job.pipeline.group;
  spec.less_memory = job.pipeline.less_memory;
  spec.memory_limit = job.pipeline.memory_limit;
  return spec;
}

PassOptions pass_options(const JobConfig& job, const Placement& placement) {
  PassOptions options;
  options.split_backward = job.pipeline.split_backward;
  options.overlap_b_f = job.pipeline.overlap_b_f;
  options.overlap_p2p = job.pipeline.overlap_p2p;
  options.duplex = job.pipeline.duplex.value_or(job.pipeline.overlap_b_f);
  options.fsdp = job.parallel.dp_shard > 1;
  options.reshard_after_forward = job.fsdp.reshard_after_forward;
  options.reduce_every_microbatch = job.fsdp.reduce == "microbatch";
  options.swap = !job.swap.layers.empty();
  options.swap_distance = job.swap.distance;
  options.mpipe = mpipe_options(job, placement);
  return options;
}

Schedule schedule_of_job(const JobConfig& job, const std::vector<ChunkCosts>& stage_costs) {
  Schedule schedule;
  if (job.pipeline.schedule == "file") {
    schedule = read_schedule_file(job.pipeline.schedule_file);
    check_fits(schedule, job);
    if (job.parallel.dp_shard == 1) drop_fsdp_steps(schedule);
  } else {
    ScheduleSpec spec = schedule_spec(job);
    spec.stage_costs = stage_costs;
    schedule = generate_schedule(spec);
  }
  if (is_compute_only(schedule)) {
    lower_schedule(schedule, pass_options(job, schedule.placement));
  } else {
    check_encoder_steps(schedule, job, job.pipeline.schedule_file);
  }
  VerifyOptions verify;
  verify.fsdp = job.parallel.dp_shard > 1;
  verify_schedule_or_throw(schedule, verify);
  return schedule;
}

std::vector<ChunkCosts> stage_costs_of_job(const JobConfig& job) {
  if (job.pipeline.schedule != "auto") return {};
  const ModelSpec spec = model_of_job(job);
  const MemoryModel model = memory_model(job, spec, layers_per_stage(job, spec, placement_of_job(job)));
  return chunk_costs(model_costs(model, model_work(job, spec, model.activations)));
}

void set_job_links(const JobConfig& job, CostModel& costs) {
  costs.link = {job.link.latency_us * 1e-3, job.link.bandwidth_gbps};
  costs.rendezvous = job.link.rendezvous;
  const std::vector<int> ranks = mesh_of_job(job).ranks_along(MeshAxis::kPipeline, 0);
  const auto pipeline_rank = [&](int world_rank) {
    return PipelineRank(static_cast<int>(std::ranges::find(ranks, world_rank) - ranks.begin()));
  };
  const int pp = static_cast<int>(ranks.size());
  for (const LinkPairConfig& pair : job.link.pairs) {
    const PipelineRank from = pipeline_rank(pair.from);
    const PipelineRank to = pipeline_rank(pair.to);
    if (from.value == pp || to.value == pp) continue;
    costs.link_overrides.push_back({from, to, {pair.latency_us * 1e-3, pair.bandwidth_gbps}});
  }
}

Placement placement_of_job(const JobConfig& job) {
  const GeneratorInfo& info = generator_or_throw(job.pipeline.schedule);
  if (const auto reason = refuse_schedule(schedule_spec(job))) throw_error("schedule {}: {}", info.name, *reason);
  return Placement(info.placement, job.parallel.pp,
                   job.pipeline.chunks > 0 ? job.pipeline.chunks : info.default_chunks);
}

const GeneratorInfo& generator_or_throw(const std::string& name) {
  if (const GeneratorInfo* info = find_generator(name)) return *info;
  std::vector<std::string_view> names;
  for (const GeneratorInfo& info : generators()) names.push_back(info.name);
  throw_error("unknown schedule '{}'{}; schedules are: {}", name, did_you_mean(name, names), fmt::join(names, ", "));
}

Schedule read_schedule_file(const std::string& file) {
  if (std::filesystem::is_directory(file)) throw_error("{}: is a folder; a schedule is a CSV file", file);
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw_error("{}: cannot be opened: {}", file, std::strerror(errno));
  std::ostringstream text;
  text << stream.rdbuf();
  return read_csv(text.str(), file);
}

bool is_compute_only(const Schedule& schedule) {
  const auto computes = [](MetaStep step) {
    return is_compute(step.type()) || step.type() == MetaStepType::OVERLAP_B_F;
  };
  return std::all_of(schedule.ranks.begin(), schedule.ranks.end(), [&](const RankSteps& rank) {
    return std::all_of(rank.steps.begin(), rank.steps.end(), computes);
  });
}

ScheduleRules schedule_rules() {
  ScheduleRules rules;
  for (const GeneratorInfo& info : generators()) rules.names.emplace_back(info.name);
  rules.names.emplace_back("mpipe_transpose");
  rules.refuse = [](const JobConfig& job) -> std::optional<std::string> {
    const auto reason = refuse_schedule(schedule_spec(job));
    if (!reason) return std::nullopt;
    return fmt::format("schedule {}: {}", job.pipeline.schedule, *reason);
  };
  rules.num_stages = [](const JobConfig& job) -> std::optional<int> {
    const GeneratorInfo* info = find_generator(job.pipeline.schedule);
    if (info == nullptr) return std::nullopt;
    const int chunks = job.pipeline.chunks > 0 ? job.pipeline.chunks : info->default_chunks;
    return info->placement == PlacementKind::kBidirectional ? job.parallel.pp : job.parallel.pp * chunks;
  };
  return rules;
}

}  // namespace ppctl
