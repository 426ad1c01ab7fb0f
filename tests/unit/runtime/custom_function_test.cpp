#include <gtest/gtest.h>

#include <atomic>

#include "base/error.hpp"
#include "comm/inproc.hpp"
#include "runtime/executor.hpp"
#include "runtime/pipeline_stage.hpp"
#include "runtime/timed_module.hpp"
#include "schedule/text.hpp"
#include "unit/runtime/toy_pipeline.hpp"

namespace ppctl {
namespace {

using toy::Job;

/// Counts calls by kind while the default does the work.
class Counter {
 public:
  void watch(Executor& executor) {
    for (int i = 0; i < kNumMetaStepTypes; ++i) {
      executor.register_custom_function(static_cast<MetaStepType>(i),
                                        [this](const MetaStep& step, StepContext& context) {
                                          ++counts_[static_cast<std::size_t>(step.type())];
                                          context.run_default();
                                        });
    }
  }
  int operator[](MetaStepType type) const { return counts_[static_cast<std::size_t>(type)]; }

 private:
  std::array<std::atomic<int>, kNumMetaStepTypes> counts_{};
};

TEST(CustomFunction, IsCalledForEachKindAndChangesNothingWhenItRunsTheDefault) {
  Job job;
  job.schedule = "zb_h1";
  job.pp = 4;
  const toy::Result wanted = toy::train(job);
  Counter counter;
  job.steps = 2;
  job.customise = [&](Executor& executor) { counter.watch(executor); };
  toy::expect_same_bits(toy::train(job), wanted);
  // Two steps of four microbatches over four stages, three edges.
  EXPECT_EQ(counter[MetaStepType::FORWARD], 2 * 16);
  EXPECT_EQ(counter[MetaStepType::BACKWARD_WEIGHT], counter[MetaStepType::BACKWARD_INPUT]);
  EXPECT_EQ(counter[MetaStepType::BACKWARD] + counter[MetaStepType::BACKWARD_INPUT], 2 * 16);
  EXPECT_EQ(counter[MetaStepType::SEND_FORWARD], 2 * 12);
  EXPECT_EQ(counter[MetaStepType::RECV_FORWARD], 2 * 12);
  EXPECT_EQ(counter[MetaStepType::SEND_BACKWARD], 2 * 12);
  EXPECT_EQ(counter[MetaStepType::RECV_BACKWARD], 2 * 12);
}

TEST(CustomFunction, GetsBackwardAndForwardOfAnOverlappedPair) {
  Job job;
  job.schedule = "interleaved_1f1b";
  job.pp = 2;
  job.num_microbatches = 6;
  const toy::Result wanted = toy::train_alone(job);
  job.passes.overlap_b_f = true;
  std::atomic<int> pairs{0};
  job.customise = [&](Executor& executor) {
    executor.register_custom_function(MetaStepType::OVERLAP_B_F, [&](const MetaStep&, StepContext& context) {
      ASSERT_EQ(context.sub_steps().size(), 2u);
      EXPECT_EQ(context.sub_steps()[0].type(), MetaStepType::BACKWARD);
      EXPECT_EQ(context.sub_steps()[1].type(), MetaStepType::FORWARD);
      for (const MetaStep step : context.sub_steps()) context.run(step);
      ++pairs;
    });
  };
  toy::expect_same_bits(toy::train(job), wanted);
  EXPECT_GT(pairs, 0);
}

TEST(CustomFunction, OfAKindAlsoHandlesTheSubStepsOfABatch) {
  Job job;
  job.pp = 4;
  job.num_microbatches = 8;
  const toy::Result wanted = toy::train_alone(job);
  job.passes.overlap_p2p = true;
  job.passes.duplex = true;
  std::atomic<int> batches{0};
  std::atomic<int> sends{0};
  job.customise = [&](Executor& executor) {
    executor.register_custom_function(MetaStepType::BATCH_SEND_RECV, [&](const MetaStep&, StepContext& context) {
      ++batches;
      EXPECT_GE(context.sub_steps().size(), 2u);
      context.run_default();
    });
    executor.register_custom_function(MetaStepType::SEND_FORWARD, [&](const MetaStep&, StepContext& context) {
      ++sends;
      context.run_default();
    });
  };
  toy::expect_same_bits(toy::train(job), wanted);
  EXPECT_GT(batches, 0);
  EXPECT_EQ(sends, 2 * 3 * 8);
}

TEST(CustomFunction, MayDoTheWorkOfAComputeStepItself) {
  Job job;
  job.pp = 4;
  const toy::Result wanted = toy::train_alone(job);
  job.customise = [](Executor& executor) {
    executor.register_custom_function(MetaStepType::FORWARD, [](const MetaStep& step, StepContext& context) {
      context.give_outputs(context.stage().forward(step.microbatch().value, context.take_inputs()));
    });
    executor.register_custom_function(MetaStepType::BACKWARD, [](const MetaStep& step, StepContext& context) {
      EXPECT_EQ(context.microbatch().index, step.microbatch().value);
      context.give_outputs(context.stage().backward(step.microbatch().value, context.take_inputs()));
    });
  };
  toy::expect_same_bits(toy::train(job), wanted);
}

TEST(CustomFunction, OfASendSeesTheTensorsThatTravel) {
  Job job;
  job.pp = 2;
  job.steps = 1;
  std::atomic<int> tensors{0};
  job.customise = [&](Executor& executor) {
    executor.register_custom_function(MetaStepType::SEND_BACKWARD, [&](const MetaStep&, StepContext& context) {
      tensors += static_cast<int>(context.take_inputs().size());
      throw_error("seen {}", tensors.load());
    });
  };
  try {
    toy::train(job);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 1, step 0, 1SEND_B0: seen 1");
  }
}

/// A schedule of one rank and one microbatch with `step` between its forward and its backward.
Schedule schedule_with(MetaStep step) {
  Schedule schedule;
  schedule.name = "by hand";
  schedule.placement = Placement(PlacementKind::kLoop, 1, 1);
  schedule.num_microbatches = 1;
  schedule.ranks.resize(1);
  schedule.ranks[0].steps = {MetaStep(MetaStepType::FORWARD, StageId(0), MicrobatchId(0)), step,
                             MetaStep(MetaStepType::BACKWARD, StageId(0), MicrobatchId(0))};
  return schedule;
}

void run_by_hand(const Schedule& schedule, const std::function<void(Executor&)>& customise) {
  run_inproc(1, [&](Communicator& communicator) {
    auto module = std::make_shared<TimedModule>(StageTimes(), true);
    Executor executor(schedule, {&communicator.transport(), PipelineRank(0), {0}},
                      {std::make_shared<PipelineStage>(module, 0, 1)});
    customise(executor);
    executor.run(std::vector<Microbatch>(1));
  });
}

TEST(CustomFunction, StandsInForTheMachineryOfEveryOtherKind) {
  for (int i = static_cast<int>(MetaStepType::UNSHARD); i < kNumMetaStepTypes; ++i) {
    const auto type = static_cast<MetaStepType>(i);
    const bool has_microbatch = type > MetaStepType::REDUCE_GRAD;
    const MetaStep step(type, StageId(0), has_microbatch ? MicrobatchId(0) : MicrobatchId(), PipelineRank(0));
    int calls = 0;
    run_by_hand(schedule_with(step), [&](Executor& executor) {
      executor.register_custom_function(type, [&](const MetaStep& got, StepContext&) {
        EXPECT_EQ(got, step);
        ++calls;
      });
    });
    EXPECT_EQ(calls, 1) << to_string(type);
  }
}

TEST(CustomFunction, IsNeededWhereAKindHasNoMachinery) {
  for (int i = static_cast<int>(MetaStepType::UNSHARD); i < kNumMetaStepTypes; ++i) {
    const auto type = static_cast<MetaStepType>(i);
    try {
      run_by_hand(schedule_with(MetaStep(type, StageId(0), MicrobatchId(0), PipelineRank(0))), [](Executor&) {});
      FAIL() << to_string(type) << " ran";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(fmt::format("a step of kind {} needs", to_string(type))),
                std::string::npos)
          << error.what();
    }
  }
}

class CountingHooks : public ShardHooks, public SwapHooks, public PreprocessHooks {
 public:
  int shard = 0;
  int swap = 0;
  int preprocess = 0;

  void unshard(StageId) override { ++shard; }
  void reshard(StageId) override { ++shard; }
  void before_compute(StageId, bool) override {}
  void reduce_grad(StageId) override { ++shard; }
  void launch_offload(StepContext& context) override { count(context); }
  void wait_offload(StepContext& context) override { count(context); }
  void launch_load(StepContext& context) override { count(context); }
  void wait_load(StepContext& context) override { count(context); }
  void run(const MetaStep&, StepContext&) override { ++preprocess; }

 private:
  void count(StepContext& context) {
    EXPECT_FALSE(context.stage().saved(context.microbatch().index).tensors.empty());
    ++swap;
  }
};

TEST(StepHooks, RunTheStepsThatBelongToThem) {
  CountingHooks hooks;
  for (int i = static_cast<int>(MetaStepType::UNSHARD); i < kNumMetaStepTypes; ++i) {
    run_by_hand(schedule_with(MetaStep(static_cast<MetaStepType>(i), StageId(0), MicrobatchId(0), PipelineRank(0))),
                [&](Executor& executor) { executor.set_hooks({&hooks, &hooks, &hooks}); });
  }
  EXPECT_EQ(hooks.shard, 3);
  EXPECT_EQ(hooks.swap, 4);
  EXPECT_EQ(hooks.preprocess, kNumMetaStepTypes - 3 - 4 - static_cast<int>(MetaStepType::UNSHARD));
}

}  // namespace
}  // namespace ppctl
