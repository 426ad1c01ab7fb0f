#include "runtime/bubble_bench.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.hpp"
#include "comm/inproc.hpp"
#include "runtime/activation_swap.hpp"
#include "runtime/bench_report.hpp"
#include "runtime/executor.hpp"
#include "runtime/transposed_encoder.hpp"
#include "schedule/links.hpp"
#include "trace/timeline_stats.hpp"

namespace ppctl {
namespace {

constexpr double kMillisecond = 1e6;

double given_ms(const BubbleCase& bench, MetaStep step) {
  const StageTimes encoder = bench.encoder.value_or(StageTimes());
  const auto stage = [&]() -> const StageTimes& { return bench.stages[static_cast<std::size_t>(step.stage().value)]; };
  switch (step.type()) {
    case MetaStepType::FORWARD:
      return stage().forward_ms;
    case MetaStepType::BACKWARD:
      return stage().dx_ms + stage().dw_ms;
    case MetaStepType::BACKWARD_INPUT:
      return stage().dx_ms;
    case MetaStepType::BACKWARD_WEIGHT:
      return stage().dw_ms;
    case MetaStepType::PREPROCESS_FORWARD:
      return encoder.forward_ms;
    case MetaStepType::PREPROCESS_BACKWARD:
      return encoder.dx_ms + encoder.dw_ms;
    case MetaStepType::PREPROCESS_BACKWARD_INPUT:
      return encoder.dx_ms;
    case MetaStepType::PREPROCESS_BACKWARD_WEIGHT:
      return encoder.dw_ms;
    default:
      return 0;
  }
}

double busiest_rank_ms(const BubbleCase& bench) {
  double busiest = 0;
  for (const RankSteps& rank : bench.schedule.ranks) {
    double work = 0;
    for (const MetaStep step : rank.steps) {
      for_each_part(rank, step, [&](MetaStep part) { work += given_ms(bench, part); });
    }
    busiest = std::max(busiest, work);
  }
  return busiest;
}

void add_wait(MeasuredRank& rank, const TimelineEvent& event) {
  const double ms = event.end_ms - event.start_ms;
  for (MeasuredWait& wait : rank.waits) {
    if (wait.peer != event.peer) continue;
    wait.ms += ms;
    return;
  }
  rank.waits.push_back({event.peer, ms});
}

MeasuredRank analyse(const std::vector<TimelineEvent>& events, double wall_ms, int peak_chunks) {
  MeasuredRank rank;
  rank.peak_chunks = peak_chunks;
  bool started = false;
  for (const TimelineEvent& event : events) {
    if (event.kind == EventKind::kWait && started) add_wait(rank, event);
    if (!is_work(event.kind)) continue;
    if (!started) rank.first_ms = event.start_ms;
    started = true;
    rank.busy_ms += event.end_ms - event.start_ms;
    rank.last_ms = event.end_ms;
  }
  rank.warmup_ms = rank.first_ms;
  rank.drain_ms = wall_ms - rank.last_ms;
  rank.overhead_ms = rank.last_ms - rank.first_ms - rank.busy_ms;
  for (const MeasuredWait& wait : rank.waits) rank.overhead_ms -= wait.ms;
  return rank;
}

BubbleMeasurement combine(const BubbleCase& bench, Nanoseconds origin, const std::vector<std::string>& reports) {
  BubbleMeasurement result;
  result.ideal_ms = busiest_rank_ms(bench);
  result.timeline.title = fmt::format("{}, measured", bench.schedule.name);
  std::vector<RankReport> ranks;
  for (int rank = 0; rank < bench.schedule.pp(); ++rank) {
    ranks.push_back(RankReport::unpack(reports[static_cast<std::size_t>(rank)]));
    result.wall_ms = std::max(result.wall_ms, static_cast<double>(ranks.back().end - origin) / kMillisecond);
  }
  for (RankReport& rank : ranks) {
    StepResult step;
    step.spans = std::move(rank.spans);
    result.timeline.ranks.push_back(step.events(origin));
    result.ranks.push_back(analyse(result.timeline.ranks.back(), result.wall_ms, static_cast<int>(rank.peak_chunks)));
    result.span_ms = std::max(result.span_ms, result.ranks.back().last_ms - result.ranks.back().first_ms);
  }
  return result;
}

std::vector<std::shared_ptr<PipelineStage>> timed_stages(const BubbleCase& bench, PipelineRank rank) {
  std::vector<std::shared_ptr<PipelineStage>> stages;
  const int num_stages = bench.schedule.num_stages();
  for (const StageId stage : bench.schedule.placement.stages_of(rank)) {
    const bool last = stage.value == num_stages - 1;
    auto module = std::make_shared<TimedModule>(bench.stages[static_cast<std::size_t>(stage.value)], last);
    stages.push_back(std::make_shared<PipelineStage>(std::move(module), stage.value, num_stages));
  }
  return stages;
}

}  // namespace

BubbleMeasurement measure_bubble(Communicator& communicator, const BubbleCase& bench) {
  const int pp = bench.schedule.pp();
  PPCTL_CHECK_EQ(static_cast<int>(bench.stages.size()), bench.schedule.num_stages());
  if (communicator.transport().size() < pp) {
    throw_error("schedule {} needs {} ranks, but there are {}", bench.schedule.name, pp,
                communicator.transport().size());
  }
  const PipelineRank rank(communicator.transport().rank());
  BubbleMeasurement best;
  if (rank.value >= pp) return best;

  std::vector<int> world_ranks(static_cast<std::size_t>(pp));
  std::iota(world_ranks.begin(), world_ranks.end(), 0);
  const std::unique_ptr<Group> group = communicator.group(world_ranks, "bubbles");
  ExecutorOptions options;
  options.timeout_s = bench.timeout_s;
  options.record_spans = true;
  Executor executor(bench.schedule, {&communicator.transport(), rank, world_ranks}, timed_stages(bench, rank), options);
  std::unique_ptr<SwapStore> tier = make_memory_store(0);
  if (bench.offload_gbps > 0) tier = make_slowed_store(std::move(tier), bench.offload_gbps);
  ActivationSwap swap(std::move(tier), bench.timeout_s);
  std::unique_ptr<TransposedEncoder> encoder;
  if (bench.encoder) {
    TransposedEncoderOptions encoder_options;
    encoder_options.timeout_s = bench.timeout_s;
    encoder = std::make_unique<TransposedEncoder>(
        bench.schedule, PipelineRanks{&communicator.transport(), rank, world_ranks},
        std::make_shared<TimedModule>(*bench.encoder, /*is_last=*/false),
        [](const Microbatch&) { return TensorList(); }, *group, encoder_options);
  }
  executor.set_hooks({.swap = &swap, .preprocess = encoder.get()});
  PreciseSleeper sleeper;
  double shortest_span = std::numeric_limits<double>::infinity();
  for (int step = 0; step < bench.warmup_steps + bench.measured_steps; ++step) {
    std::vector<Microbatch> microbatches(static_cast<std::size_t>(bench.schedule.num_microbatches));
    for (std::size_t i = 0; i < microbatches.size(); ++i) {
      microbatches[i].step = step;
      microbatches[i].index = static_cast<int>(i);
    }
    const Nanoseconds origin = agree_on_start(*group, Deadline::after_seconds(bench.timeout_s));
    sleeper.sleep_until(origin);
    const StepResult& got = executor.run(std::move(microbatches));
    const RankReport report{got.end, got.peak_chunks, got.spans, {}};
    const auto reports = group->all_gather_strings(report.pack(), Deadline::after_seconds(bench.timeout_s));
    if (rank.value != 0 || step < bench.warmup_steps) continue;
    BubbleMeasurement measured = combine(bench, origin, reports);
    shortest_span = std::min(shortest_span, measured.span_ms);
    if (step == bench.warmup_steps || measured.wall_ms < best.wall_ms) best = std::move(measured);
    best.span_ms = shortest_span;
  }
  return best;
}

BubbleMeasurement measure_bubble_inproc(const BubbleCase& bench) {
  BubbleMeasurement result;
  run_inproc(bench.schedule.pp(), [&](Communicator& communicator) {
    BubbleMeasurement mine = measure_bubble(communicator, bench);
    if (communicator.transport().rank() == 0) result = std::move(mine);
  });
  return result;
}

}  // namespace ppctl
