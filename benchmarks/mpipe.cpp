// What MPipe makes of an encoder in front of a pipeline: a table of step times, predicted and, with `measure`, of timed
// stages with ranks as threads. An encoder costs 1, 2 and 4 of the body's stages.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "runtime/bubble_bench.hpp"
#include "schedule/generator.hpp"
#include "schedule/pass.hpp"
#include "schedule/passes/mpipe_placement.hpp"
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
};

enum class Placing {
  kFirstStage,  ///< the plain way: all of the encoder in the first stage
  kSplit,       ///< the plain way, with an encoder that can be cut anywhere
  kReference,   ///< encoded by all before the body; after each backward rank 0 encodes alone, again, and goes back
  kBeforeBody,  ///< encoded by all before the body, and back by all after it
  kJustInTime
};

bool owners_train(Placing placing) { return placing == Placing::kBeforeBody || placing == Placing::kJustInTime; }
bool is_transposed(Placing placing) { return placing == Placing::kReference || owners_train(placing); }

Schedule body_of(const Case& one) {
  ScheduleSpec spec;
  spec.name = one.body;
  spec.pp = one.pp;
  spec.num_microbatches = one.num_microbatches;
  return generate_schedule(spec);
}

/// A rank's part of the body takes kForwardMs, in however many stages.
double stage_share(const Schedule& schedule) { return schedule.pp() / static_cast<double>(schedule.num_stages()); }

StageTimes times_of(double stages) { return {kForwardMs * stages, kHalfBackwardMs * stages, kHalfBackwardMs * stages}; }

MpipeOptions mpipe_of(const Case& one, const Schedule& schedule, Placing placing) {
  MpipeOptions mpipe;
  mpipe.enabled = is_transposed(placing);
  mpipe.just_in_time = placing == Placing::kJustInTime;
  mpipe.trains = owners_train(placing);
  mpipe.splits_backward = true;
  const StageTimes encoder = times_of(one.encoder);
  mpipe.forward = encoder.forward_ms;
  mpipe.dx = encoder.dx_ms;
  mpipe.dw = encoder.dw_ms;
  const StageTimes stage = times_of(stage_share(schedule));
  mpipe.stages.assign(static_cast<std::size_t>(schedule.num_stages()), {stage.forward_ms, stage.dx_ms, stage.dw_ms, 0});
  return mpipe;
}

Schedule schedule_of(const Case& one, Placing placing) {
  Schedule schedule = body_of(one);
  PassOptions options;
  options.mpipe = mpipe_of(one, schedule, placing);
  lower_schedule(schedule, options);
  verify_schedule_or_throw(schedule);
  return schedule;
}

std::vector<StageTimes> stages_of(const Case& one, const Schedule& schedule, Placing placing) {
  const double share = stage_share(schedule);
  const double even = placing == Placing::kSplit ? one.encoder / schedule.num_stages() : 0.0;
  std::vector<StageTimes> stages(static_cast<std::size_t>(schedule.num_stages()), times_of(share + even));
  if (placing == Placing::kFirstStage) stages[0] = times_of(share + one.encoder);
  if (placing == Placing::kReference) {
    stages[0].dx_ms += kForwardMs * one.encoder + kHalfBackwardMs * one.encoder;
    stages[0].dw_ms += kHalfBackwardMs * one.encoder;
  }
  return stages;
}

double predicted(const Case& one, Placing placing) {
  const Schedule schedule = schedule_of(one, placing);
  CostModel costs;
  for (const StageTimes& times : stages_of(one, schedule, placing)) {
    costs.stages.push_back({.forward_ms = times.forward_ms, .dx_ms = times.dx_ms, .dw_ms = times.dw_ms});
  }
  const StageTimes encoder = times_of(one.encoder);
  costs.encoder_forward_ms = encoder.forward_ms;
  costs.encoder_dx_ms = encoder.dx_ms;
  costs.encoder_dw_ms = encoder.dw_ms;
  return simulate(schedule, costs).wall_ms;
}

double measured(const Case& one, Placing placing) {
  BubbleCase bench;
  bench.schedule = schedule_of(one, placing);
  bench.stages = stages_of(one, bench.schedule, placing);
  if (is_transposed(placing)) bench.encoder = times_of(one.encoder);
  return measure_bubble_inproc(bench).wall_ms;
}

void print_row(const Case& one, bool measures) {
  const Schedule body = body_of(one);
  const double work = one.num_microbatches * (kForwardMs + 2 * kHalfBackwardMs) * (1 + one.encoder / one.pp);
  Case none = one;
  none.encoder = 0;
  const double least = least_mpipe_length(body, mpipe_of(one, body, Placing::kJustInTime));
  fmt::print("| {} | {} | {} | {} | {:.0f} | {:.0f} | {:.0f} |", one.body, one.encoder, one.pp, one.num_microbatches,
             work, predicted(none, Placing::kSplit), least);
  double times[5] = {};
  for (const Placing placing :
       {Placing::kFirstStage, Placing::kSplit, Placing::kReference, Placing::kBeforeBody, Placing::kJustInTime}) {
    const double time = times[static_cast<std::size_t>(placing)] = predicted(one, placing);
    fmt::print(" {:.0f}", time);
    if (measures) fmt::print(" / {:.0f}", measured(one, placing));
    fmt::print(" |");
  }
  const auto against = [&](Placing placing) {
    return 100 * (times[static_cast<std::size_t>(Placing::kJustInTime)] / times[static_cast<std::size_t>(placing)] - 1);
  };
  fmt::print(" {:+.1f} % | {:+.1f} % | {:+.1f} % |\n",
             100 * (times[static_cast<std::size_t>(Placing::kJustInTime)] / least - 1), against(Placing::kReference),
             against(Placing::kBeforeBody));
  std::fflush(stdout);
}

int run(const std::string& body, bool measures) {
  fmt::print(
      "| body | encoder, stages | pp | m | work / ranks | body alone | no order is below | in the first stage | split "
      "evenly | as the reference | before the body | just in time | above the least | against the reference | against "
      "before |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
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
