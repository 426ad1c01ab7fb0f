// What a pair waits for and when its outputs leave, shown by steps that wait for each other: where a half waited for
// more than its own input, or a send for more than its own half, they would wait in vain.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>

#include "base/error.hpp"
#include "comm/inproc.hpp"
#include "runtime/executor.hpp"
#include "runtime/overlapped_pairs.hpp"
#include "schedule/generator.hpp"
#include "schedule/pass.hpp"

namespace ppctl {
namespace {

/// Things that happen once, on any thread.
class Events {
 public:
  void happen(const std::string& event) {
    const std::lock_guard lock(mutex_);
    happened_.insert(event);
    changed_.notify_all();
  }
  void await(const std::string& event) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(20), [&] { return happened_.contains(event); })) {
      throw_error("waited in vain for {}", event);
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> happened_;
};

struct Script {
  bool two_threads = true;
  bool duplex = false;
  /// "1F2" is the forward of microbatch 2 on rank 1: what it waits for once it has begun.
  std::map<std::string, std::string> waits;
  std::string fails;  ///< a step that throws when it has begun
};

class ScriptedModule : public StageModule {
 public:
  ScriptedModule(const Script& script, Events& events, int rank) : script_(script), events_(events), rank_(rank) {}

  TensorList forward(const Microbatch& microbatch, TensorList, SavedActivations& saved, LossReport* loss) override {
    saved.push(at::zeros({4}, at::kFloat));
    play('F', microbatch);
    if (loss != nullptr) loss->num_labels = 1;
    return {at::zeros({4}, at::kFloat)};
  }
  TensorList backward(const Microbatch& microbatch, TensorList, SavedActivations& saved, WeightGradQueue&) override {
    saved.pop();
    play('B', microbatch);
    return {at::zeros({4}, at::kFloat)};
  }
  std::vector<ParameterGroup*> parameter_groups() override { return {}; }

 private:
  void play(char kind, const Microbatch& microbatch) {
    const std::string step = fmt::format("{}{}{}", rank_, kind, microbatch.index);
    events_.happen(step);
    if (const auto wait = script_.waits.find(step); wait != script_.waits.end()) events_.await(wait->second);
    if (script_.fails == step) throw_error("{} fails", step);
  }

  const Script& script_;
  Events& events_;
  int rank_;
};

/// Runs 1F1B with pairs on three ranks, what each throws. Rank 1 runs F0 F1 [B0 F2] [B1 F3] ..., rank 0 F0 F1 F2
/// [B0 F3] ..., rank 2 F0 [B0 F1] [B1 F2] ...: the first pair of each is one of unknown numbers of exchanges, and so on
/// two threads where there are two.
std::array<std::string, 3> play(const Script& script) {
  ScheduleSpec spec{.name = "1f1b", .pp = 3, .num_microbatches = 6};
  Schedule schedule = generate_schedule(spec);
  PassOptions passes;
  passes.overlap_b_f = true;
  passes.overlap_p2p = passes.duplex = script.duplex;
  lower_schedule(schedule, passes);
  Events events;
  std::array<std::string, 3> texts;
  const auto run_rank = [&](Communicator& communicator) {
    const int rank = communicator.transport().rank();
    auto module = std::make_shared<ScriptedModule>(script, events, rank);
    Executor executor(schedule, {&communicator.transport(), PipelineRank(rank), {0, 1, 2}},
                      {std::make_shared<PipelineStage>(module, rank, 3)}, {.timeout_s = 60});
    OverlappedPairs pairs(communicator.transport(), 60);
    if (script.two_threads) executor.register_custom_function(MetaStepType::OVERLAP_B_F, pairs.function());
    std::vector<Microbatch> microbatches(6);
    for (int i = 0; i < 6; ++i) microbatches[static_cast<std::size_t>(i)].index = i;
    try {
      executor.run(std::move(microbatches));
    } catch (const Error& error) {
      texts[static_cast<std::size_t>(rank)] = error.what();
      events.happen(fmt::format("end of rank {}", rank));
      throw;
    }
  };
  if (script.fails.empty()) {
    run_inproc(3, run_rank);
  } else {
    EXPECT_THROW(run_inproc(3, run_rank), Error);
  }
  return texts;
}

TEST(PairOrder, SendsWhatTheBackwardMakesBeforeTheForwardHasEnded) {
  for (const bool duplex : {false, true}) {
    for (const bool two_threads : {true, false}) play({two_threads, duplex, {{"1F2", "0B0"}}, ""});
  }
}

TEST(PairOrder, SendsWhatTheForwardMakesBeforeTheBackwardHasEnded) {
  for (const bool duplex : {false, true}) play({true, duplex, {{"1B0", "2F2"}}, ""});
}

TEST(PairOrder, BeginsTheBackwardWithoutTheInputOfTheForward) {
  for (const bool two_threads : {true, false}) play({two_threads, false, {{"0F2", "1B0"}}, ""});
}

TEST(PairOrder, BeginsTheForwardWithoutTheInputOfTheBackward) { play({true, false, {{"2B0", "1F2"}}, ""}); }

TEST(PairOrder, EndsTheWaitOfAHalfForItsInputWhenTheOtherHalfFails) {
  // The input that the other half waits for does not come before the pair has failed.
  const std::string forward = play({true, false, {{"2B0", "end of rank 1"}}, "1F2"})[1];
  EXPECT_NE(forward.find("the forward of the pair failed: 1F2 fails; and its backward: "), std::string::npos)
      << forward;
  const std::string backward = play({true, false, {{"0F2", "end of rank 1"}}, "1B0"})[1];
  EXPECT_NE(backward.find("the backward of the pair failed: 1B0 fails; and its forward: "), std::string::npos)
      << backward;
}

}  // namespace
}  // namespace ppctl
