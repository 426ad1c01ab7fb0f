#include "bench_engine.hpp"

#include <ATen/Parallel.h>

#include <cstdio>
#include <fstream>

#include "base/error.hpp"
#include "bench_options.hpp"
#include "bubble_report.hpp"
#include "errors.hpp"
#include "job_schedule.hpp"
#include "launcher.hpp"
#include "schedule/generator.hpp"
#include "schedule/verify.hpp"
#include "train/agreement.hpp"
#include "train_engine_connect.hpp"

namespace ppctl {
namespace {

/// Microbatches: a number, or a multiple of the ranks ("2p").
int microbatches(const std::string& text, int pp) {
  if (!text.empty() && text.back() == 'p')
    return pp * number_option("microbatches", text.substr(0, text.size() - 1), 1);
  return number_option("microbatches", text, 1);
}

/// Where an encoder in front of the stages runs.
enum class EncoderPlace : std::uint8_t { kNone, kFirstStage, kSplit, kBeforeBody, kJustInTime };

EncoderPlace encoder_place(const std::string& name) {
  if (name == "first_stage") return EncoderPlace::kFirstStage;
  if (name == "split") return EncoderPlace::kSplit;
  if (name == "before_body") return EncoderPlace::kBeforeBody;
  if (name == "just_in_time") return EncoderPlace::kJustInTime;
  throw_error("--encoder {}: first_stage, split, before_body or just_in_time", name);
}

struct BubbleOptions {
  std::vector<std::string> schedules;
  std::vector<int> pp;
  std::vector<std::string> microbatches;
  std::vector<int> chunks;
  StageTimes times;           ///< of one stage and microbatch
  std::vector<double> scale;  ///< of the times, by stage; empty: all stages alike
  double offload_gbps = 0;
  double encoder_scale = 0;                 ///< an encoder's times are those of a stage times this; 0: there is none
  std::vector<std::string> encoder_places;  ///< "" without an encoder
  int steps = 5;
  bool json = false;
  std::string trace;
};

BubbleOptions read_options(const EngineRequest& request) {
  const auto text = [&](const char* name) { return request.options.at(name); };
  BubbleOptions options;
  if (text("schedules") == "all") {
    for (const GeneratorInfo& info : generators()) options.schedules.emplace_back(info.name);
  } else {
    options.schedules = split_list(text("schedules"));
  }
  for (const std::string& name : options.schedules) generator_or_throw(name);
  for (const std::string& pp : split_list(text("pp"))) options.pp.push_back(number_option("pp", pp, 1));
  options.microbatches = split_list(text("microbatches"));
  for (const std::string& chunks : split_list(text("chunks")))
    options.chunks.push_back(number_option("chunks", chunks, 0));
  options.times = {number_option("forward-ms", text("forward-ms"), 0.0), number_option("dx-ms", text("dx-ms"), 0.0),
                   number_option("dw-ms", text("dw-ms"), 0.0)};
  options.times.activation_bytes =
      static_cast<std::int64_t>(number_option("activation-mib", text("activation-mib"), 0.0) * 1024.0 * 1024.0);
  options.offload_gbps = number_option("offload-gbps", text("offload-gbps"), 0.0);
  if (!text("stage-scale").empty()) {
    for (const std::string& part : split_list(text("stage-scale"))) {
      options.scale.push_back(number_option("stage-scale", part, 0.0));
    }
  }
  options.encoder_scale = number_option("encoder-scale", text("encoder-scale"), 0.0);
  options.encoder_places = split_list(text("encoder"));
  for (const std::string& place : options.encoder_places) encoder_place(place);
  if (options.encoder_scale == 0) options.encoder_places = {""};
  options.steps = number_option("steps", text("steps"), 1);
  options.json = wants_json(text("format"));
  options.trace = text("trace");
  return options;
}

/// Every rank finds the same, so one of them says it.
void check_ranks(const BubbleOptions& options, int num_ranks) {
  for (const int pp : options.pp) {
    if (pp > num_ranks)
      throw AgreedError(fmt::format("--pp {} needs {} ranks, but {} were started", pp, pp, num_ranks));
  }
}

StageTimes scaled(StageTimes times, double factor) {
  for (double* ms : {&times.forward_ms, &times.dx_ms, &times.dw_ms}) *ms *= factor;
  return times;
}

/// Of each stage. Throws Error where the scale is of another number of stages.
std::vector<StageTimes> stage_times(const BubbleOptions& options, int num_stages, EncoderPlace place) {
  std::vector<double> scale = options.scale;
  if (scale.empty()) scale.assign(static_cast<std::size_t>(num_stages), 1.0);
  if (static_cast<int>(scale.size()) != num_stages) {
    throw_error("--stage-scale has {} numbers for {} stages", scale.size(), num_stages);
  }
  if (place == EncoderPlace::kFirstStage) scale[0] += options.encoder_scale;
  if (place == EncoderPlace::kSplit) {
    for (double& factor : scale) factor += options.encoder_scale / num_stages;
  }
  std::vector<StageTimes> stages;
  for (const double factor : scale) stages.push_back(scaled(options.times, factor));
  return stages;
}

CostModel costs_of(const BubbleCase& bench) {
  CostModel costs;
  for (const StageTimes& stage : bench.stages) {
    costs.stages.push_back({.forward_ms = stage.forward_ms,
                            .dx_ms = stage.dx_ms,
                            .dw_ms = stage.dw_ms,
                            .activation_bytes = static_cast<double>(stage.activation_bytes)});
  }
  costs.offload_gbps = bench.offload_gbps;
  costs.pairs_in_turns = true;
  if (bench.encoder) {
    costs.encoder_forward_ms = bench.encoder->forward_ms;
    costs.encoder_dx_ms = bench.encoder->dx_ms;
    costs.encoder_dw_ms = bench.encoder->dw_ms;
  }
  return costs;
}

MpipeOptions mpipe_options(const CostModel& costs, EncoderPlace place) {
  MpipeOptions mpipe;
  mpipe.enabled = place == EncoderPlace::kBeforeBody || place == EncoderPlace::kJustInTime;
  mpipe.just_in_time = place == EncoderPlace::kJustInTime;
  mpipe.splits_backward = true;
  mpipe.forward = costs.encoder_forward_ms;
  mpipe.dx = costs.encoder_dx_ms;
  mpipe.dw = costs.encoder_dw_ms;
  mpipe.stages = chunk_costs(costs);
  return mpipe;
}

/// Everything but the measurement; nothing where the schedule does not exist for these numbers.
std::optional<std::pair<BubbleCase, BubbleRow>> prepare(const BubbleOptions& options, ScheduleSpec spec,
                                                        const std::string& encoder) {
  const GeneratorInfo& info = generator_or_throw(spec.name);
  if (spec.chunks == 0) spec.chunks = info.default_chunks;
  if (info.chunks_fixed && spec.chunks != info.default_chunks) return std::nullopt;
  if (refuse_schedule(spec)) return std::nullopt;
  const EncoderPlace place = encoder.empty() ? EncoderPlace::kNone : encoder_place(encoder);
  BubbleCase bench;
  const StageTimes& times = options.times;
  spec.costs = {times.forward_ms, times.dx_ms, times.dw_ms, 0};
  bench.schedule = generate_schedule(spec);
  bench.stages = stage_times(options, bench.schedule.num_stages(), place);
  if (place > EncoderPlace::kSplit) bench.encoder = scaled(times, options.encoder_scale);
  bench.measured_steps = options.steps;
  bench.offload_gbps = options.offload_gbps;
  const CostModel costs = costs_of(bench);
  PassOptions passes;
  passes.swap = options.offload_gbps > 0;
  passes.mpipe = mpipe_options(costs, place);
  lower_schedule(bench.schedule, passes);
  verify_schedule_or_throw(bench.schedule);

  BubbleRow row{.schedule = spec.name, .pp = spec.pp, .chunks = spec.chunks, .num_microbatches = spec.num_microbatches};
  row.encoder = encoder;
  row.simulation = simulate(bench.schedule, costs, {.timeline = true});
  const bool is_known = options.scale.empty() && !passes.swap && place == EncoderPlace::kNone;
  if (!is_known) return std::make_pair(std::move(bench), std::move(row));
  const double pair = times.forward_ms + times.dx_ms + times.dw_ms;
  row.theory = schedule_theory(spec.name, spec.pp, spec.chunks, spec.num_microbatches, spec.costs, pair);
  return std::make_pair(std::move(bench), std::move(row));
}

/// The same on every rank, and so is what is wrong with it.
std::optional<std::pair<BubbleCase, BubbleRow>> agreed_prepare(const BubbleOptions& options, const ScheduleSpec& spec,
                                                               const std::string& encoder) {
  try {
    return prepare(options, spec, encoder);
  } catch (const Error& error) {
    throw AgreedError(error.what());
  }
}

void print(const BubbleOptions& options, const std::vector<BubbleRow>& rows) {
  const std::string text = options.json ? bubble_json(rows) : bubble_text(rows);
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (options.trace.empty()) return;
  std::ofstream out(options.trace);
  out << bubble_trace(rows);
  out.close();
  if (!out) throw_error("cannot write {}", options.trace);
}

/// Calls visit(spec, place of the encoder) for everything that is to be measured.
template <class Visit>
void for_each_case(const BubbleOptions& options, const Visit& visit) {
  for (const int pp : options.pp) {
    for (const std::string& m : options.microbatches) {
      for (const std::string& name : options.schedules) {
        for (const int chunks : options.chunks) {
          ScheduleSpec spec;
          spec.name = name;
          spec.pp = pp;
          spec.chunks = chunks;
          spec.num_microbatches = microbatches(m, pp);
          for (const std::string& encoder : options.encoder_places) visit(spec, encoder);
        }
      }
    }
  }
}

/// `measure` runs one case; what it gives counts on rank 0 alone.
void run_all(const BubbleOptions& options, bool prints,
             const std::function<BubbleMeasurement(const BubbleCase&)>& measure) {
  std::vector<BubbleRow> rows;
  for_each_case(options, [&](const ScheduleSpec& spec, const std::string& encoder) {
    auto prepared = agreed_prepare(options, spec, encoder);
    if (!prepared) return;
    prepared->second.measured = measure(prepared->first);
    rows.push_back(std::move(prepared->second));
  });
  if (!prints) return;
  if (rows.empty()) throw_error("none of these schedules exists for these numbers of ranks, chunks and microbatches");
  print(options, rows);
}

}  // namespace

int bench_bubbles(const EngineRequest& request) {
  const BubbleOptions options = read_options(request);
  at::set_num_threads(1);
  if (!detect_launch().launched) {
    run_all(options, true, measure_bubble_inproc);
    return kExitOk;
  }
  int status = kExitFailed;
  with_communicator(JobConfig(), [&](Communicator& communicator) {
    const Transport& transport = communicator.transport();
    status = run_rank(communicator, [&] {
      check_ranks(options, transport.size());
      run_all(options, transport.rank() == 0,
              [&](const BubbleCase& bench) { return measure_bubble(communicator, bench); });
      return kExitOk;
    });
  });
  return status;
}

}  // namespace ppctl
