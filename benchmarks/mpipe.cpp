// What MPipe makes of an encoder in front of a pipeline: a table of step times, predicted and, with `measure`, of timed
// stages with ranks as threads. An encoder costs 1, 2 and 4 of the body's stages.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "runtime/bubble_bench.hpp"
#include "schedule/generator.hpp"
#include "schedule/pass.hpp"
#include "schedule/verify.hpp"
#include "simulate/simulate.hpp"

namespace ppctl {
namespace {

constexpr double kForwardMs = 10;
constexpr double kHalfBackwardMs = 10;  // dx, and dw

struct Case {
  std::string body;
  int pp = 1;
  int num_microbatches = 1;
  double encoder = 0;  ///< in stages

  StageTimes encoder_times() const {
    return {encoder * kForwardMs, encoder * kHalfBackwardMs, encoder * kHalfBackwardMs};
  }
};

enum class Placing { kSplit, kFirstStage, kBeforeBody, kJustInTime };

Schedule schedule_of(const Case& one, Placing placing) {
  ScheduleSpec spec;
  spec.name = one.body;
  spec.pp = one.pp;
  spec.num_microbatches = one.num_microbatches;
  Schedule schedule = generate_schedule(spec);
  PassOptions options;
  MpipeOptions& mpipe = options.mpipe;
  mpipe.enabled = placing == Placing::kBeforeBody || placing == Placing::kJustInTime;
  mpipe.just_in_time = placing == Placing::kJustInTime;
  const StageTimes encoder = one.encoder_times();
  mpipe.forward = encoder.forward_ms;
  mpipe.backward = encoder.dx_ms + encoder.dw_ms;
  mpipe.stages.assign(static_cast<std::size_t>(schedule.num_stages()),
                      {kForwardMs, kHalfBackwardMs, kHalfBackwardMs, 0});
  lower_schedule(schedule, options);
  verify_schedule_or_throw(schedule);
  return schedule;
}

/// The encoder in the stages: divided evenly over all of them, which whole layers can at best come near, or all of it
/// in the first one.
std::vector<StageTimes> stages_of(const Case& one, const Schedule& schedule, Placing placing) {
  const auto num_stages = static_cast<std::size_t>(schedule.num_stages());
  const double body = 1.0;
  std::vector<StageTimes> stages(num_stages, {kForwardMs, kHalfBackwardMs, kHalfBackwardMs});
  for (std::size_t stage = 0; stage < num_stages; ++stage) {
    double factor = body;
    if (placing == Placing::kSplit) factor += one.encoder / static_cast<double>(num_stages);
    if (placing == Placing::kFirstStage && stage == 0) factor += one.encoder;
    stages[stage] = {kForwardMs * factor, kHalfBackwardMs * factor, kHalfBackwardMs * factor};
  }
  return stages;
}

double predicted(const Case& one, Placing placing) {
  const Schedule schedule = schedule_of(one, placing);
  CostModel costs;
  for (const StageTimes& times : stages_of(one, schedule, placing)) {
    costs.stages.push_back({.forward_ms = times.forward_ms, .dx_ms = times.dx_ms, .dw_ms = times.dw_ms});
  }
  const StageTimes encoder = one.encoder_times();
  costs.encoder_forward_ms = encoder.forward_ms;
  costs.encoder_dx_ms = encoder.dx_ms;
  costs.encoder_dw_ms = encoder.dw_ms;
  return simulate(schedule, costs).wall_ms;
}

double measured(const Case& one, Placing placing) {
  BubbleCase bench;
  bench.schedule = schedule_of(one, placing);
  bench.stages = stages_of(one, bench.schedule, placing);
  if (placing == Placing::kBeforeBody || placing == Placing::kJustInTime) bench.encoder = one.encoder_times();
  return measure_bubble_inproc(bench).wall_ms;
}

void print_row(const Case& one, bool measures) {
  const double work =
      one.num_microbatches * (kForwardMs + 2 * kHalfBackwardMs) * (1 + one.encoder / static_cast<double>(one.pp));
  const StageTimes encoder = one.encoder_times();
  Case none = one;
  none.encoder = 0;
  const double body = predicted(none, Placing::kSplit);
  const double path = encoder.forward_ms + body + encoder.dx_ms + encoder.dw_ms;
  const auto cell = [&](Placing placing) {
    const double wanted = predicted(one, placing);
    return measures ? fmt::format("{:.0f} / {:.0f}", wanted, measured(one, placing)) : fmt::format("{:.0f}", wanted);
  };
  const double before = predicted(one, Placing::kBeforeBody);
  const double just = predicted(one, Placing::kJustInTime);
  const double bound = std::max(work, path);
  fmt::print("| {} | {} | {} | {} | {:.0f} | {:.0f} | {:.0f} | {} | {} | {} | {} | {:+.1f} % | {:+.1f} % |\n", one.body,
             one.encoder, one.pp, one.num_microbatches, work, body, path, cell(Placing::kFirstStage),
             cell(Placing::kSplit), cell(Placing::kBeforeBody), cell(Placing::kJustInTime), 100 * (just / bound - 1),
             100 * (just / before - 1));
  std::fflush(stdout);
}

int run(const std::string& body, bool measures) {
  fmt::print(
      "| body | encoder, stages | pp | m | work / ranks | body alone | encoder forward + body + its backward | in the "
      "first stage | split evenly | before the body | just in time | above the larger bound | against before |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const int pp : {4, 8}) {
    for (const int times : {2, 4}) {
      for (const double encoder : {1.0, 2.0, 4.0}) print_row({body, pp, times * pp, encoder}, measures);
    }
  }
  return 0;
}

}  // namespace
}  // namespace ppctl

/// bench_mpipe [BODY] [measure]
int main(int argc, char** argv) {
  const bool measures = argc > 1 && std::strcmp(argv[argc - 1], "measure") == 0;
  const bool has_body = argc > 1 + (measures ? 1 : 0);
  return ppctl::run(has_body ? argv[1] : "1f1b", measures);
}
