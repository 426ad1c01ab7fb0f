#include <gtest/gtest.h>

#include <vector>

#include "schedule/verify.hpp"
#include "unit/schedule/schedule_cases.hpp"

namespace ppctl {
namespace {

/// A rank's steps with composites opened.
std::vector<MetaStep> flattened(const RankSteps& rank) {
  std::vector<MetaStep> flat;
  for (const MetaStep step : rank.steps) {
    if (is_composite(step.type())) {
      for (const MetaStep sub : rank.sub_steps_of(step)) flat.push_back(sub);
    } else {
      flat.push_back(step);
    }
  }
  return flat;
}

/// What is wrong with a generator's output, or "".
class ComputeCheck {
 public:
  explicit ComputeCheck(const Schedule& schedule)
      : schedule_(schedule),
        m_(schedule.num_microbatches),
        states_(static_cast<std::size_t>(schedule.num_stages() * m_), State::kNothing) {}

  std::string run() {
    for (int r = 0; r < schedule_.pp(); ++r) {
      std::vector<int> last_backward(static_cast<std::size_t>(schedule_.num_stages()), -1);
      for (const MetaStep step : flattened(schedule_.ranks[static_cast<std::size_t>(r)])) {
        if (!is_compute(step.type())) return format_step(step) + " is no compute step";
        if (schedule_.placement.rank_of(step.stage(), step.microbatch(), m_).value != r) {
          return format_step(step) + " is on the wrong rank";
        }
        if (!advance(step)) return format_step(step) + " comes too early or twice";
        if (step.type() != MetaStepType::BACKWARD && step.type() != MetaStepType::BACKWARD_INPUT) continue;
        int& last = last_backward[static_cast<std::size_t>(step.stage().value)];
        if (step.microbatch().value <= last) return format_step(step) + " is out of order";
        last = step.microbatch().value;
      }
    }
    for (const State state : states_) {
      if (state != State::kDone) return "a microbatch is not finished";
    }
    return "";
  }

 private:
  enum class State { kNothing, kForward, kInput, kDone };

  bool advance(MetaStep step) {
    State& state = states_[static_cast<std::size_t>(step.stage().value * m_ + step.microbatch().value)];
    const auto move = [&state](State from, State to) { return state == from && (state = to, true); };
    switch (step.type()) {
      case MetaStepType::FORWARD:
        return move(State::kNothing, State::kForward);
      case MetaStepType::BACKWARD:
        return move(State::kForward, State::kDone);
      case MetaStepType::BACKWARD_INPUT:
        return move(State::kForward, State::kInput);
      default:
        return move(State::kInput, State::kDone);
    }
  }

  const Schedule& schedule_;
  int m_;
  std::vector<State> states_;
};

TEST(GeneratorsProperty, ComputeEachStageAndMicrobatchOnceInOrderAndWithoutDeadlock) {
  EXPECT_TRUE(rc::check("complete, ordered, free of deadlock", [] {
    for (const ScheduleSpec& spec : *rc::gen::container<std::vector<ScheduleSpec>>(20, accepted_specs())) {
      const Schedule schedule = generate_schedule(spec);
      RC_LOG() << describe(spec) << "\n";
      RC_ASSERT(ComputeCheck(schedule).run() == "");
      const VerifyResult result = verify_schedule(schedule, {.communication = false});
      RC_LOG() << (result.ok() ? "" : result.faults.front().text());
      RC_ASSERT(result.ok());
      RC_ASSERT(result.backward_in_order);
    }
  }));
}

TEST(GeneratorsProperty, DivideTheBackwardWhereTheirTableSaysSo) {
  EXPECT_TRUE(rc::check("splits_backward", [] {
    const ScheduleSpec spec = *accepted_specs();
    const Schedule schedule = generate_schedule(spec);
    bool divided = false;
    for (const MetaStep step : flattened(schedule.ranks[0])) divided |= step.type() == MetaStepType::BACKWARD_INPUT;
    RC_LOG() << describe(spec);
    RC_ASSERT(divided == find_generator(spec.name)->splits_backward);
  }));
}

TEST(GeneratorsProperty, SurviveTheTextForm) {
  EXPECT_TRUE(rc::check("write, read, compare", [] {
    const ScheduleSpec spec = *accepted_specs();
    const Schedule schedule = generate_schedule(spec);
    const Schedule read = read_csv(csv_of(schedule), "schedule.csv");
    RC_LOG() << describe(spec);
    RC_ASSERT(read.num_microbatches == schedule.num_microbatches);
    // With one rank a loop of two chunks and a V are the same placement.
    RC_ASSERT(spec.pp == 1 || read.placement == schedule.placement);
    for (std::size_t r = 0; r < read.ranks.size(); ++r) {
      RC_ASSERT(read.ranks[r].steps == schedule.ranks[r].steps);
      RC_ASSERT(read.ranks[r].sub_steps == schedule.ranks[r].sub_steps);
    }
  }));
}

}  // namespace
}  // namespace ppctl
