#include "plan.hpp"

#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>

#include "arch/job_model.hpp"
#include "base/error.hpp"
#include "job_schedule.hpp"
#include "mpipe_choice.hpp"
#include "plan_model.hpp"
#include "plan_search.hpp"
#include "schedule/text.hpp"
#include "schedule/verify.hpp"
#include "simulate/compare.hpp"
#include "simulate/plan_report.hpp"
#include "simulate/zero_bubble_table.hpp"
#include "topology/mesh.hpp"
#include "trace/chrome_trace.hpp"
#include "trace/svg.hpp"

namespace ppctl {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

void print(const std::string& text) {
  const std::size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written != text.size() || std::fflush(stdout) != 0)
    throw_error("cannot write to standard output: {}", std::strerror(errno));
}

std::string with_newline(std::string text) {
  if (!text.ends_with('\n')) text += '\n';
  return text;
}

/// As wide as the terminal and in colour there; plain and 160 columns elsewhere.
TextGridOptions grid_options() {
  TextGridOptions options;
  if (isatty(STDOUT_FILENO) == 0) return options;
  options.colour = std::getenv("NO_COLOR") == nullptr;
  winsize size{};
  constexpr int kNarrowest = 40;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) options.width = std::max<int>(size.ws_col, kNarrowest);
  return options;
}

std::size_t num_steps(const Schedule& schedule) {
  std::size_t steps = 0;
  for (const RankSteps& rank : schedule.ranks) steps += rank.steps.size();
  return steps;
}

/// The mesh of a job's ranks, and which ranks form a group along each axis.
std::string mesh_text(const JobConfig& job) {
  const Mesh mesh = mesh_of_job(job);
  std::string text = "mesh: " + mesh.to_text() + "\n";
  std::vector<MeshAxis> axes{MeshAxis::kPipeline, MeshAxis::kDpReplicate, MeshAxis::kDpShard};
  if (mesh.size(MeshAxis::kExpert) > 1) {
    axes.insert(axes.end(), {MeshAxis::kExpert, MeshAxis::kExpertShard, MeshAxis::kExpertReplicate});
  }
  for (const MeshAxis axis : axes) {
    if (mesh.size(axis) == 1) continue;
    constexpr std::size_t kMostShown = 8;
    const std::vector<std::vector<int>> groups = mesh.groups(axis);
    text += fmt::format("  {:<12} ", to_string(axis));
    for (std::size_t i = 0; i < std::min(groups.size(), kMostShown); ++i) {
      text += fmt::format("{}[{}]", i == 0 ? "" : " ", fmt::join(groups[i], " "));
    }
    text += groups.size() > kMostShown ? fmt::format(" and {} more\n", groups.size() - kMostShown) : "\n";
  }
  return text + "\n";
}

std::string csv_text(const Schedule& schedule) {
  std::ostringstream text;
  write_csv(text, schedule);
  return text.str();
}

void save(const std::string& file, const Schedule& schedule) {
  std::ofstream stream(file, std::ios::binary);
  if (stream) write_csv(stream, schedule);
  stream.flush();
  if (!stream) throw_error("{}: cannot be written: {}", file, std::strerror(errno));
}

/// What a report says of the model.
void add_model(const PlanOptions& options, const JobConfig& job, const PlanModel& model, const Schedule& schedule,
               PlanReport& report) {
  if (model.known()) {
    report.memory = MemoryReport{model.memory(schedule), memory_terms(job), job.memory_gib * kGib};
    for (std::size_t rank = 0; rank < report.memory->ranks.size() && !options.gives_memory(); ++rank) {
      report.simulation.ranks[rank].peak_bytes = static_cast<double>(report.memory->ranks[rank].total());
    }
    if (!options.gives_times() && !job.profile.empty()) {
      report.notes = fmt::format("times:   measured, from {}\n", job.profile);
    } else if (!options.gives_times()) {
      report.notes =
          "times:   relative, from the model's operations: 1 ms is the mean forward of a stage; --forward-ms, --dx-ms "
          "and --dw-ms give measured ones\n";
    }
  } else if (!model.reason().empty()) {
    report.notes = fmt::format("memory:  not known, and stages cost the same: {}\n", model.reason());
  }
}

void print_report(const PlanOptions& options, const JobConfig& job, const PlanModel& model, const Schedule& schedule,
                  const CostModel& costs) {
  if (options.format == "csv") {
    print(csv_text(schedule));
    return;
  }
  // A grid shows a few hundred steps of a rank; recording millions of spans for it would only take memory.
  constexpr std::size_t kMostDrawn = 1'000'000;
  const bool drawn = options.format != "json" && num_steps(schedule) <= kMostDrawn;
  if (!drawn && options.format != "json" && options.format != "text") {
    throw_error("{} steps are too many for --format {}; text, json and csv go on", num_steps(schedule), options.format);
  }
  PlanReport report = make_plan_report(schedule, costs, drawn);
  add_model(options, job, model, schedule, report);
  if (job.pipeline.post_validation) report.cadence = step_cadence(schedule, costs, options.optimizer_ms);
  if (options.format == "json") {
    print(with_newline(plan_json(report)));
  } else if (options.format == "svg") {
    print(with_newline(render_svg(report.simulation.timeline)));
  } else if (options.format == "html") {
    print(with_newline(plan_html(report)));
  } else if (options.format == "trace") {
    std::ostringstream text;
    write_chrome_trace(text, report.simulation.timeline);
    print(with_newline(text.str()));
  } else {
    print(with_newline(plan_text(report, grid_options())));
  }
}

/// Where the job needs more memory than it may: the fastest way that does not.
std::string advice(const PlanOptions& options, const JobConfig& job, const PlanModel& model, const Schedule& schedule) {
  const double limit = job.memory_gib * kGib;
  if (limit <= 0 || !model.known() || options.gives_memory()) return "";
  if (static_cast<double>(largest_total(model.memory(schedule))) <= limit) return "";
  try {
    const std::vector<MixRow> rows = search_mixes(options, job);
    const MixRow& best = cheapest_fit(rows, limit);
    return fmt::format("\nDoes not fit in {} GiB a rank. The fastest that does takes {:.5g} ms a step and {}:\n{}",
                       job.memory_gib, best.row.step_ms, bytes_text(best.row.peak_bytes), mix_yaml(best));
  } catch (const Error& error) {
    return fmt::format("\nDoes not fit in {} GiB a rank, and nothing does: {}\n", job.memory_gib, error.what());
  }
}

/// The job, with its way to run the encoder chosen where it leaves that open, and shown.
JobConfig chosen_job(const PlanOptions& options, const JobConfig& asked) {
  const MpipeChoice choice = choose_mpipe(asked);
  if (choice.was_asked() && options.format == "text") print(mpipe_choice_table(choice));
  return choice.job;
}

void print_schedule(const PlanOptions& options, const JobConfig& job) {
  const PlanModel model(options, job);
  CostModel costs;
  Schedule schedule;
  if (job.pipeline.schedule == "file") {
    schedule = schedule_of_job(job);
    costs = plan_costs(options, job, model, schedule.placement);
  } else {
    costs = plan_costs(options, job, model, placement_of_job(job));
    schedule = schedule_of_job(job, chunk_costs(costs));
  }
  if (model.known()) costs = plan_costs(options, job, model, schedule.placement, &schedule);
  if (!options.save.empty()) save(options.save, schedule);
  if (options.format == "text" && job.dp() > 1) print(mesh_text(job));
  print_report(options, job, model, schedule, costs);
  if (options.format == "text") print(advice(options, job, model, schedule));
}

/// Proves a schedule from a file, then reports on it as on any other.
void check_schedule(const PlanOptions& options) {
  Schedule schedule = read_schedule_file(options.check);
  const JobConfig job = chosen_job(options, plan_job(options));
  const PlanModel model(options, job);
  const bool lowered = is_compute_only(schedule);
  if (model.known() && !lowered) check_encoder_steps(schedule, job, options.check);
  if (lowered) lower_schedule(schedule, pass_options(job, schedule.placement));
  const VerifyResult proof = verify_schedule_or_throw(schedule);
  if (options.format == "text") {
    print(fmt::format("{}: proved, {} ranks, {} stages, {} microbatches, {} steps{}\n", options.check, schedule.pp(),
                      schedule.num_stages(), schedule.num_microbatches, num_steps(schedule),
                      lowered ? " (communication added)" : ""));
    if (!proof.backward_in_order)
      print("Some backwards run out of microbatch order: losses will differ from other schedules' in the last bits.\n");
  }
  if (!options.save.empty()) save(options.save, schedule);
  print_report(options, job, model, schedule, plan_costs(options, job, model, schedule.placement, &schedule));
}

/// What a rank may take, in bytes; without a limit, as much as it wants.
double memory_limit(const JobConfig& job) {
  return job.memory_gib > 0 ? job.memory_gib * kGib : std::numeric_limits<double>::infinity();
}

/// --auto where the model is known: over schedules, splits, recompute and swap.
void choose_mix(const PlanOptions& options, const JobConfig& job) {
  if (job.pipeline.schedule == "file") throw_error("--auto is about schedules that are generated, not one from a file");
  const double memory = memory_limit(job);
  const std::vector<MixRow> rows = search_mixes(options, job);
  const MixRow& best = cheapest_fit(rows, memory);
  if (options.format == "json") {
    print(with_newline(comparison_json({best.row})));
    return;
  }
  if (options.format != "text") throw_error("--compare and --auto print text or json, not {}", options.format);
  const auto fitting =
      std::count_if(rows.begin(), rows.end(), [memory](const MixRow& row) { return row.row.peak_bytes <= memory; });
  const std::string counts =
      job.memory_gib > 0
          ? fmt::format("{} of {} ways to run the job fit in {} GiB a rank", fitting, rows.size(), job.memory_gib)
          : fmt::format("{} ways to run the job, without a limit to memory", rows.size());
  print(fmt::format("{}{}. The fastest, for the job file:\n{}", search_text(rows, memory), counts, mix_yaml(best)));
}

/// --compare, and --auto where costs and memory are given.
void compare(const PlanOptions& options, JobConfig job) {
  // The costs are those of the schedule that was asked for; without one, of one stage a rank.
  const bool named = !options.schedule.empty() || !options.config.empty();
  if (job.pipeline.schedule == "file")
    throw_error("--compare and --auto are about schedules that are generated, not one from a file");
  const Placement placement = named ? placement_of_job(job) : Placement(PlacementKind::kLoop, job.parallel.pp, 1);
  CompareRequest request;
  request.pp = job.parallel.pp;
  request.num_microbatches = job.num_microbatches();
  // A list of layers fits one number of stages alone.
  if (job.pipeline.layers == "list" && !options.chunks) job.pipeline.layers = "uniform";
  const PlanModel model(options, job);
  if (model.known()) {
    request.costs_of = [&](const Placement& candidate) { return comparable_costs(options, job, model, candidate); };
    if (!options.gives_memory()) {
      request.peak_bytes_of = [&](const Schedule& schedule) {
        return static_cast<double>(largest_total(model.memory(schedule)));
      };
    }
  } else {
    request.costs = plan_costs(options, job, model, placement);
  }
  request.passes_of = [&](const Placement& candidate) { return pass_options(job, candidate); };
  request.memory_limit = job.pipeline.memory_limit;
  if (options.chunks) request.chunks = {*options.chunks};
  const std::vector<ComparisonRow> rows = compare_schedules(request);
  if (options.format == "json") {
    print(with_newline(options.choose ? comparison_json({best_fit(rows, memory_limit(job))}) : comparison_json(rows)));
    return;
  }
  if (options.format != "text") throw_error("--compare and --auto print text or json, not {}", options.format);
  std::string text = with_newline(comparison_text(rows, job.memory_gib * kGib));
  if (options.choose) {
    const ComparisonRow best = best_fit(rows, memory_limit(job));
    const std::string limit = job.memory_gib > 0 ? fmt::format(" within {} GiB", job.memory_gib) : "";
    text += fmt::format("\nThe fastest{}, for the job file:\npipeline: {{schedule: {}, chunks: {}}}\n", limit,
                        best.schedule, best.chunks);
  }
  print(text);
}

/// Whether --auto also varies how a known model is split, recomputed and swapped.
bool chooses_mix(const PlanOptions& options, JobConfig job) {
  job.mpipe.enabled = false;
  return options.choose && !options.gives_memory() && PlanModel(options, job).known();
}

void print_zero_bubble_table(const std::string& file) {
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw_error("{}: cannot be opened: {}", file, std::strerror(errno));
  std::ostringstream text;
  text << stream.rdbuf();
  std::vector<ZeroBubbleRow> rows = read_zero_bubble_csv(text.str(), file);
  for (ZeroBubbleRow& row : rows) simulate_zero_bubble_row(row);
  print(with_newline(zero_bubble_markdown(rows)));
}

}  // namespace

int plan(const PlanOptions& options) {
  if (options.show_config) {
    if (options.config.empty()) throw_error("--show-config shows a job file: give one with --config");
    print(show_config(load_plan_config(options)));
  } else if (!options.zero_bubble_table.empty()) {
    print_zero_bubble_table(options.zero_bubble_table);
  } else if (!options.check.empty()) {
    check_schedule(options);
  } else if (options.compare || options.choose) {
    JobConfig job = plan_job(options);
    const bool mixes = chooses_mix(options, job);
    if (mixes) {
      job.mpipe.enabled = false;  // one of the ways that are laid side by side
    } else {
      job = chosen_job(options, job);
    }
    if (options.choose && !mixes && job.memory_gib > 0 && !options.gives_memory()) {
      throw_error(
          "--auto needs to know memory: give a job with a model, or --activation-mib (kept for one microbatch) and "
          "--state-mib");
    }
    mixes ? choose_mix(options, job) : compare(options, job);
  } else {
    print_schedule(options, chosen_job(options, plan_job(options)));
  }
  return 0;
}

}  // namespace ppctl
