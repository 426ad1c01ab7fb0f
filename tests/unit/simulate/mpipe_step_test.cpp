#include <gtest/gtest.h>

#include <string>

#include "schedule/generator.hpp"
#include "schedule/pass.hpp"
#include "schedule/passes/mpipe_placement.hpp"
#include "simulate/simulate.hpp"

namespace ppctl {
namespace {

/// A body whose ranks take 1 for each of forward, dx and dw of a microbatch, behind an encoder that takes `encoder`.
struct Case {
  Schedule body;
  double encoder;

  Case(const std::string& name, int pp, int num_microbatches, double encoder_time) : encoder(encoder_time) {
    ScheduleSpec spec;
    spec.name = name;
    spec.pp = pp;
    spec.num_microbatches = num_microbatches;
    body = generate_schedule(spec);
  }

  double stage() const { return body.pp() / static_cast<double>(body.num_stages()); }

  MpipeOptions options(bool just_in_time) const {
    MpipeOptions options;
    options.enabled = true;
    options.just_in_time = just_in_time;
    options.splits_backward = true;
    options.forward = options.dx = options.dw = encoder;
    options.stages.assign(static_cast<std::size_t>(body.num_stages()), {stage(), stage(), stage(), 0});
    return options;
  }

  double step(bool just_in_time) const {
    Schedule schedule = body;
    PassOptions passes;
    passes.mpipe = options(just_in_time);
    lower_schedule(schedule, passes);
    CostModel costs = uniform_costs(body.num_stages(), {.forward_ms = stage(), .dx_ms = stage(), .dw_ms = stage()});
    costs.encoder_forward_ms = costs.encoder_dx_ms = costs.encoder_dw_ms = encoder;
    return simulate(schedule, costs).wall_ms;
  }
};

TEST(MpipeStep, JustInTimeIsShorterThanBeforeTheBodyAndNoneIsBelowTheLeast) {
  for (const char* body : {"gpipe", "1f1b", "zb_h1", "interleaved_1f1b", "zb_v"}) {
    for (const int pp : {2, 4}) {
      for (const int m : {pp, 2 * pp, 4 * pp}) {
        for (const double encoder : {0.5, 1.0, 4.0}) {
          const Case one(body, pp, m, encoder);
          const double just_in_time = one.step(true);
          EXPECT_LE(just_in_time, one.step(false)) << body << ", pp " << pp << ", m " << m << ", encoder " << encoder;
          EXPECT_GE(just_in_time, least_mpipe_length(one.body, one.options(true)) - 1e-9);
        }
      }
    }
  }
}

TEST(MpipeStep, JustInTimeIsWithinFivePercentOfTheLeastOf1F1BAndZeroBubbleBodies) {
  for (const char* body : {"1f1b", "zb_h1"}) {
    for (const int pp : {4, 8}) {
      for (const int m : {2 * pp, 4 * pp}) {
        for (const double encoder : {1.0, 2.0, 4.0}) {
          const Case one(body, pp, m, encoder);
          EXPECT_LE(one.step(true), 1.05 * least_mpipe_length(one.body, one.options(true)))
              << body << ", pp " << pp << ", m " << m << ", encoder " << encoder;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ppctl
