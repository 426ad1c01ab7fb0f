#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <optional>
#include <random>

#include "base/error.hpp"
#include "schedule/links.hpp"
#include "schedule/text.hpp"
#include "schedule/verify.hpp"
#include "unit/schedule/any_schedule.hpp"

// A proof is worth what it refuses: each test breaks correct schedules in one way, in thousands of places.

namespace ppctl {
namespace {

using Random = std::mt19937;

std::size_t any_below(Random& random, std::size_t end) {
  return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
}

/// A place in a schedule, with what was done to it.
struct Mutation {
  std::size_t rank;
  std::size_t step;
  std::string text;
};
using Mutate = std::optional<Mutation> (*)(Schedule&, Random&);

/// A random step of a rank that has any, of the kinds that `wanted` says; looks at a few at most.
template <class Wanted>
std::optional<Mutation> pick(const Schedule& schedule, Random& random, Wanted wanted) {
  for (int attempt = 0; attempt < 50; ++attempt) {
    const std::size_t rank = any_below(random, schedule.ranks.size());
    const RankSteps& steps = schedule.ranks[rank];
    const std::size_t step = any_below(random, steps.steps.size());
    if (wanted(steps.steps[step].type())) return Mutation{rank, step, format_step(steps, steps.steps[step])};
  }
  return std::nullopt;
}

/// Lowers random schedules with random passes and mutates each many times: all mutants must be refused.
void expect_refused(Mutate mutate, int passes_that_are_on = 0) {
  int cases = 0;
  EXPECT_TRUE(rc::check([&] {
    const ScheduleSpec spec = testing::any_spec();
    PassOptions options =
        testing::any_options(*rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, 64)) | passes_that_are_on);
    options.reduce_every_microbatch = false;  // where a reduction is left out, the next one makes up for it
    Schedule schedule = generate_schedule(spec);
    try {
      lower_schedule(schedule, options);
    } catch (const Error&) {
      return;  // a combination that cannot be
    }
    Random random(*rc::gen::arbitrary<std::uint32_t>());
    for (int i = 0; i < 30; ++i) {
      Schedule mutant = schedule;
      const auto mutation = mutate(mutant, random);
      if (!mutation) continue;
      ++cases;
      if (verify_schedule(mutant, {.fsdp = options.fsdp}).ok()) {
        RC_FAIL(fmt::format("{}: rank {}, step {} ({}) was broken and not refused", testing::describe(spec, options),
                            mutation->rank, mutation->step, mutation->text));
      }
    }
  }));
  EXPECT_GT(cases, 50);
}

std::vector<MetaStep>::iterator at(Schedule& schedule, const Mutation& mutation) {
  return schedule.ranks[mutation.rank].steps.begin() + static_cast<std::ptrdiff_t>(mutation.step);
}

TEST(MutatedSchedules, AreRefusedWithAStepDropped) {
  expect_refused([](Schedule& schedule, Random& random) {
    const auto mutation = pick(schedule, random, [](MetaStepType) { return true; });
    if (mutation) schedule.ranks[mutation->rank].steps.erase(at(schedule, *mutation));
    return mutation;
  });
}

TEST(MutatedSchedules, AreRefusedWithAStepDoubled) {
  expect_refused([](Schedule& schedule, Random& random) {
    const auto mutation = pick(schedule, random, [](MetaStepType) { return true; });
    if (!mutation) return mutation;
    const MetaStep step = *at(schedule, *mutation);
    // Gradients may be reduced early, and again after the last one.
    const bool anywhere = step.type() != MetaStepType::REDUCE_GRAD;
    const std::size_t place =
        anywhere ? any_below(random, schedule.ranks[mutation->rank].steps.size() + 1) : mutation->step;
    auto& steps = schedule.ranks[mutation->rank].steps;
    steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(place), step);
    return mutation;
  });
}

/// Whether a beat makes or uses what this send or receive transfers.
bool is_end_of(const RankSteps& rank, MetaStep beat, MetaStep message) {
  if (!is_beat(beat.type())) return false;
  const bool forward = message.type() == MetaStepType::SEND_FORWARD || message.type() == MetaStepType::RECV_FORWARD;
  bool found = false;
  for_each_part(rank, beat, [&](MetaStep part) {
    const bool is_kind = forward ? part.type() == MetaStepType::FORWARD : makes_input_gradient(part.type());
    found |= is_kind && part.stage() == message.stage() && part.microbatch() == message.microbatch();
  });
  return found;
}

TEST(MutatedSchedules, AreRefusedWithAReceiveAfterItsUse) {
  expect_refused([](Schedule& schedule, Random& random) {
    auto mutation = pick(schedule, random, [](MetaStepType type) {
      return type == MetaStepType::RECV_FORWARD || type == MetaStepType::RECV_BACKWARD;
    });
    if (!mutation) return mutation;
    RankSteps& rank = schedule.ranks[mutation->rank];
    const auto receive = at(schedule, *mutation);
    const auto user =
        std::find_if(receive, rank.steps.end(), [&](MetaStep step) { return is_end_of(rank, step, *receive); });
    if (user == rank.steps.end()) return std::optional<Mutation>();
    std::rotate(receive, receive + 1, user + 1);
    return mutation;
  });
}

TEST(MutatedSchedules, AreRefusedWithASendBeforeItsProducer) {
  expect_refused([](Schedule& schedule, Random& random) {
    auto mutation = pick(schedule, random, [](MetaStepType type) {
      return type == MetaStepType::SEND_FORWARD || type == MetaStepType::SEND_BACKWARD;
    });
    if (!mutation) return mutation;
    RankSteps& rank = schedule.ranks[mutation->rank];
    auto producer = at(schedule, *mutation);
    const MetaStep send = *producer;
    while (!is_end_of(rank, *producer, send)) --producer;
    std::rotate(producer, at(schedule, *mutation), at(schedule, *mutation) + 1);
    return mutation;
  });
}

TEST(MutatedSchedules, AreRefusedWithABackwardBeforeItsForward) {
  expect_refused([](Schedule& schedule, Random& random) {
    auto mutation = pick(schedule, random, makes_input_gradient);
    if (!mutation) return mutation;
    RankSteps& rank = schedule.ranks[mutation->rank];
    auto forward = at(schedule, *mutation);
    const MetaStep backward = *forward;
    const auto is_its_forward = [&](MetaStep step) {
      bool found = false;
      for_each_part(rank, step, [&](MetaStep part) {
        found |= part == MetaStep(MetaStepType::FORWARD, backward.stage(), backward.microbatch());
      });
      return found;
    };
    while (!is_its_forward(*forward)) --forward;
    std::rotate(forward, at(schedule, *mutation), at(schedule, *mutation) + 1);
    return mutation;
  });
}

TEST(MutatedSchedules, AreRefusedWithAnotherPeer) {
  expect_refused([](Schedule& schedule, Random& random) {
    auto mutation = pick(schedule, random, is_p2p);
    if (!mutation) return mutation;
    const auto step = at(schedule, *mutation);
    int peer = static_cast<int>(any_below(random, schedule.ranks.size() + 1)) - 1;  // none, too
    if (peer == step->peer().value) peer = schedule.pp();
    *step = MetaStep(step->type(), step->stage(), step->microbatch(), PipelineRank(peer));
    return mutation;
  });
}

TEST(MutatedSchedules, AreRefusedWithABatchTorn) {
  constexpr int kDuplex = 8;
  expect_refused(
      [](Schedule& schedule, Random& random) {
        auto mutation = pick(schedule, random, [](MetaStepType type) { return type == MetaStepType::BATCH_SEND_RECV; });
        if (!mutation) return mutation;
        const auto batch = at(schedule, *mutation);
        const std::uint32_t first = batch->sub_index() + (any_below(random, 2) == 0 ? 0 : 1);
        *batch = MetaStep::composite(MetaStepType::BATCH_SEND_RECV, first, batch->sub_count() - 1, batch->peer());
        return mutation;
      },
      kDuplex);
}

TEST(MutatedSchedules, AreRefusedWithAStageOrMicrobatchRenamed) {
  expect_refused([](Schedule& schedule, Random& random) {
    auto mutation = pick(schedule, random, [](MetaStepType type) { return is_compute(type) || is_p2p(type); });
    if (!mutation) return mutation;
    const auto step = at(schedule, *mutation);
    const auto change = static_cast<int>(1 + any_below(random, 3));
    const bool of_stage = any_below(random, 2) == 0;
    *step = MetaStep(step->type(), StageId(step->stage().value + (of_stage ? change : 0)),
                     MicrobatchId(step->microbatch().value + (of_stage ? 0 : change)), step->peer());
    return mutation;
  });
}

TEST(MutatedSchedules, AreNeverAReasonToCrash) {
  EXPECT_TRUE(rc::check([] {
    const ScheduleSpec spec = testing::any_spec();
    Schedule schedule = generate_schedule(spec);
    Random random(*rc::gen::arbitrary<std::uint32_t>());
    lower_schedule(schedule, {.overlap_p2p = true, .duplex = true, .fsdp = true, .swap = true});
    bool any_refused = false;
    for (int i = 0; i < 200; ++i) {
      RankSteps& rank = schedule.ranks[any_below(random, schedule.ranks.size())];
      if (rank.steps.empty()) continue;
      const auto any_id = [&](int end) {
        return static_cast<int>(any_below(random, static_cast<std::size_t>(end) + 2)) - 1;
      };
      const auto type = static_cast<MetaStepType>(any_below(random, kNumMetaStepTypes));
      MetaStep& step = rank.steps[any_below(random, rank.steps.size())];
      step = is_composite(type)
                 ? MetaStep::composite(type, static_cast<std::uint32_t>(any_below(random, 100)),
                                       static_cast<int>(any_below(random, 256)), PipelineRank(any_id(spec.pp)))
                 : MetaStep(type, StageId(any_id(schedule.num_stages())), MicrobatchId(any_id(spec.num_microbatches)),
                            PipelineRank(any_id(spec.pp)));
      const VerifyResult result = verify_schedule(schedule);
      any_refused |= !result.ok();
      for (const ScheduleFault& fault : result.faults) RC_ASSERT(!fault.text().empty());
    }
    RC_ASSERT(any_refused);
  }));
}

}  // namespace
}  // namespace ppctl
