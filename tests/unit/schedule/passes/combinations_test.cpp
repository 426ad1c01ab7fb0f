#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <utility>

#include "base/error.hpp"
#include "schedule/links.hpp"
#include "schedule/verify.hpp"
#include "unit/schedule/any_schedule.hpp"

namespace ppctl {
namespace {

TEST(PassCombinations, OfEveryScheduleVerifyWhereTheyAreAccepted) {
  int accepted = 0;
  const bool holds = rc::check([&] {
    const ScheduleSpec spec = testing::any_spec();
    const Schedule generated = generate_schedule(spec);
    for (int passes = 0; passes < 64; ++passes) {
      const PassOptions options = testing::any_options(passes);
      Schedule schedule = generated;
      try {
        lower_schedule(schedule, options);
      } catch (const Error& error) {
        const std::string text = error.what();
        RC_ASSERT(text.starts_with("split_backward: ") || text.starts_with("overlap_b_f: "));
        continue;
      }
      ++accepted;
      const VerifyResult result = verify_schedule(schedule, {.fsdp = options.fsdp});
      if (!result.ok()) RC_FAIL(testing::describe(spec, options) + ": " + result.faults.front().text());
    }
  });
  EXPECT_TRUE(holds);
  EXPECT_GT(accepted, 1000);
}

// Which combinations are refused does not depend on chance: only what cannot be done.
TEST(PassCombinations, AreRefusedOnlyWhereBackwardsAreSplitOrNothingPairs) {
  EXPECT_TRUE(rc::check([] {
    const ScheduleSpec spec = testing::any_spec();
    const Schedule generated = generate_schedule(spec);
    for (int passes = 0; passes < 64; ++passes) {
      const PassOptions options = testing::any_options(passes);
      Schedule schedule = generated;
      const bool whole = !find_generator(spec.name)->splits_backward;
      const bool may_refuse = (options.split_backward && !whole) || options.overlap_b_f;
      if (may_refuse) continue;
      lower_schedule(schedule, options);
    }
  }));
}

/// What the passes of communication have achieved on all ranks.
struct Effect {
  int batches = 0;
  int in_batches = 0;    ///< sends and receives that are part of one
  int posted_early = 0;  ///< receives with a beat between them and the beat that consumes them
  friend bool operator==(const Effect&, const Effect&) = default;
};

Effect effect_of(const Schedule& schedule) {
  const StageLinks links(schedule);
  Effect effect;
  for (const RankSteps& rank : schedule.ranks) {
    std::map<std::pair<bool, std::size_t>, int> posted;  // [gradient, stage and microbatch]: beats before
    int beats = 0;
    for (const MetaStep step : rank.steps) {
      if (step.type() == MetaStepType::BATCH_SEND_RECV) {
        ++effect.batches;
        effect.in_batches += step.sub_count();
      }
      for_each_part(rank, step, [&](MetaStep part) {
        const std::size_t key =
            is_p2p(part.type()) || is_compute(part.type()) ? links.key(part.stage_value(), part.microbatch_value()) : 0;
        if (part.type() == MetaStepType::RECV_FORWARD) posted[{false, key}] = beats;
        if (part.type() == MetaStepType::RECV_BACKWARD) posted[{true, key}] = beats;
        const bool forward = part.type() == MetaStepType::FORWARD;
        if (!forward && !makes_input_gradient(part.type())) return;
        const auto receive = posted.find({!forward, key});
        if (receive != posted.end() && receive->second < beats) ++effect.posted_early;
      });
      beats += is_beat(step.type());
    }
  }
  return effect;
}

/// Puts steps that take no part in the pipeline's own messages between the beats, as MPipe does.
void strew_data_steps(Schedule& schedule) {
  for (RankSteps& rank : schedule.ranks) {
    std::vector<MetaStep> steps;
    for (const MetaStep step : rank.steps) {
      steps.push_back(step);
      if (*rc::gen::inRange(0, 3) != 0) continue;
      for (const MetaStepType type : {MetaStepType::LOAD_DATA, MetaStepType::PREPROCESS_FORWARD}) {
        steps.push_back(MetaStep(type, StageId(0), MicrobatchId(0)));
      }
    }
    rank.steps = std::move(steps);
  }
}

// Steps that one pass adds must not stop another from working.
TEST(PassCombinations, LeaveBatchesAndEarlyReceivesAsEffectiveAsWithoutShardsSwapAndDataSteps) {
  int batches = 0;
  int early = 0;
  EXPECT_TRUE(rc::check([&] {
    const ScheduleSpec spec = testing::any_spec();
    const Schedule generated = generate_schedule(spec);
    PassOptions options = testing::any_options(4 + 8);  // overlap_p2p and duplex alone
    options.overlap_b_f = !find_generator(spec.name)->splits_backward && *rc::gen::inRange(0, 2) == 1;
    Schedule plain = generated;
    try {
      lower_schedule(plain, options);
    } catch (const Error&) {
      return;  // Nothing pairs.
    }
    const Effect wanted = effect_of(plain);
    batches += wanted.batches;
    early += wanted.posted_early;
    options.fsdp = options.swap = true;
    Schedule with_more = generated;
    lower_schedule(with_more, options);
    RC_ASSERT(effect_of(with_more) == wanted);

    Schedule with_data = generated;
    bool strewn = false;
    for (const PassInfo& pass : passes()) {
      if (pass.name == "communication") {
        strew_data_steps(with_data);
        strewn = true;
      }
      if (pass.wanted(with_data, options)) pass.apply(with_data, options);
    }
    RC_ASSERT(strewn);
    RC_ASSERT(effect_of(with_data) == wanted);
  }));
  EXPECT_GT(batches, 1000);
  EXPECT_GT(early, 1000);
}

}  // namespace
}  // namespace ppctl
