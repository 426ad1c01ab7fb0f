#include "runtime/executor.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "base/error.hpp"
#include "unit/runtime/toy_pipeline.hpp"

namespace ppctl {
namespace {

using toy::expect_same_bits;
using toy::Job;
using toy::Layer;
using toy::train;
using toy::train_alone;

TEST(Executor, TrainsFourRanksUnder1F1BWithTheLossesOfOneRank) {
  Job job;
  job.pp = 4;
  expect_same_bits(train(job), train_alone(job));
}

TEST(Executor, RunsFewerMicrobatchesThanRanks) {
  for (const char* schedule : {"gpipe", "1f1b", "zb_h1"}) {
    for (const int m : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{} with {} microbatches", schedule, m));
      Job job;
      job.schedule = schedule;
      job.pp = 4;
      job.num_microbatches = m;
      expect_same_bits(train(job), train_alone(job));
    }
  }
}

TEST(Executor, CarriesRaggedMicrobatchesWhoseShapesChangeWithEveryStep) {
  Job job;
  job.pp = 4;
  job.num_microbatches = 6;
  job.ragged = true;
  job.steps = 4;
  expect_same_bits(train(job), train_alone(job));
}

TEST(Executor, CarriesSeveralTensorsAndGradientsThatAreNotThere) {
  Job job;
  job.pp = 4;
  job.num_microbatches = 6;
  job.layers.assign(8, Layer::kForgetful);
  for (const char* schedule : {"1f1b", "zb_v"}) {
    job.schedule = schedule;
    expect_same_bits(train(job), train_alone(job));
  }
}

TEST(Executor, CarriesBfloat16) {
  Job job;
  job.pp = 4;
  job.dtype = at::kBFloat16;
  expect_same_bits(train(job), train_alone(job));
}

TEST(Executor, RunsAStageWithoutParametersInEveryPosition) {
  for (std::size_t position = 0; position < 4; ++position) {
    SCOPED_TRACE(position);
    Job job;
    job.pp = 4;
    job.layers.assign(4, Layer::kDense);
    job.layers[position] = Layer::kNoParameters;
    for (const char* schedule : {"1f1b", "zb_h1"}) {
      job.schedule = schedule;
      expect_same_bits(train(job), train_alone(job));
    }
  }
}

TEST(Executor, KeepsAFrozenWeightAsItIs) {
  Job job;
  job.pp = 2;
  job.layers.assign(2, Layer::kFrozen);
  const toy::Result result = train(job);
  EXPECT_TRUE(at::equal(result.grads.at("layers.0.weight"), at::zeros({6, 6}, at::kDouble)));
  EXPECT_FALSE(at::equal(result.grads.at("layers.0.bias"), at::zeros({6}, at::kDouble)));
}

TEST(Executor, ReportsLossesWhereTheLastStageIs) {
  Job job;
  job.pp = 4;
  EXPECT_EQ(train(job).loss_ranks, (std::vector<int>{3, 3, 3, 3}));
  job.schedule = "zb_v";
  EXPECT_EQ(train(job).loss_ranks, (std::vector<int>{0, 0, 0, 0}));
  job.schedule = "dualpipe";
  job.num_microbatches = 8;
  EXPECT_EQ(train(job).loss_ranks, (std::vector<int>{3, 3, 3, 3, 0, 0, 0, 0}));
}

TEST(Executor, RecordsTimesOfEachMicrobatchAndSpansWhenAsked) {
  Job job;
  job.pp = 2;
  job.customise = [](Executor& executor) { executor.set_record_spans(true); };
  job.after_step = [](Executor& executor, const StepResult& result) {
    for (const MicrobatchTimes& times : result.times) {
      EXPECT_GT(times.forward, 0);
      EXPECT_GT(times.backward, 0);
      EXPECT_GT(times.wait, 0);
    }
    EXPECT_LE(result.start, result.spans.front().start);
    EXPECT_GE(result.end, result.spans.back().end);
    EXPECT_EQ(result.peak_chunks, executor.rank().value == 0 ? 2 : 1);
  };
  train(job);
}

TEST(Executor, RecordsNoSpansUnlessAsked) {
  Job job;
  job.pp = 2;
  job.after_step = [](Executor&, const StepResult& result) { EXPECT_TRUE(result.spans.empty()); };
  train(job);
}

/// What the first rank that failed said.
std::string failure_of(const Job& job) {
  try {
    train(job);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Executor, NamesRankStepAndMetaStepOfAFailure) {
  Job job;
  job.pp = 4;
  job.customise = [](Executor& executor) {
    executor.register_custom_function(MetaStepType::BACKWARD, [](const MetaStep& step, StepContext& context) {
      if (step.stage() == StageId(2) && step.microbatch() == MicrobatchId(1) && context.step_number() == 1) {
        throw_error("boom");
      }
      context.run_default();
    });
  };
  EXPECT_EQ(failure_of(job), "rank 2, step 1, 2B1: boom");
}

TEST(Executor, EndsEveryRankWhenOneFails) {
  std::vector<std::string> texts(4);
  Job job;
  job.pp = 4;
  job.on_failure = [&](int rank, const std::string& text) { texts[static_cast<std::size_t>(rank)] = text; };
  job.customise = [](Executor& executor) {
    executor.register_custom_function(MetaStepType::FORWARD, [](const MetaStep& step, StepContext& context) {
      if (step.stage() == StageId(3)) throw_error("boom");
      context.run_default();
    });
  };
  EXPECT_EQ(failure_of(job), "rank 3, step 0, 3F0: boom");
  // Each peer says what it was at, and why the job failed.
  for (int rank = 0; rank < 3; ++rank) {
    const std::string& text = texts[static_cast<std::size_t>(rank)];
    EXPECT_EQ(text.find(fmt::format("rank {}, step 0, ", rank)), 0u) << text;
    EXPECT_NE(text.find("rank 3 failed: step 0, 3F0: boom"), std::string::npos) << text;
  }
}

TEST(Executor, GivesUpAWaitAtItsDeadline) {
  Job job;
  job.pp = 2;
  job.timeout_s = 0.2;
  job.customise = [](Executor& executor) {
    executor.register_custom_function(MetaStepType::SEND_FORWARD, [](const MetaStep& step, StepContext& context) {
      if (step.microbatch() != MicrobatchId(2)) context.run_default();
    });
  };
  const std::string text = failure_of(job);
  EXPECT_EQ(text.find("rank"), 0u) << text;
  EXPECT_NE(text.find("step 0"), std::string::npos) << text;
}

TEST(Executor, RefusesAStepWhoseMachineryIsNotThere) {
  Job job;
  job.pp = 2;
  job.passes.fsdp = true;
  EXPECT_NE(failure_of(job).find("a step of kind UNSHARD needs sharded parameters, which this run does not have"),
            std::string::npos);
}

TEST(Executor, RunsForwardAloneAndGivesTheLastStagesOutputs) {
  Job job;
  job.schedule = "zb_v";
  job.pp = 4;
  job.steps = 1;
  std::vector<TensorList> outputs;
  std::vector<double> losses;
  job.after_step = [&](Executor& executor, const StepResult& trained) {
    const bool has_last = executor.rank().value == 0;
    if (has_last) {
      for (const MicrobatchLoss& loss : trained.losses) losses.push_back(loss.report.loss_sum);
    }
    std::vector<Microbatch> microbatches(4);
    for (int i = 0; i < 4; ++i) {
      microbatches[static_cast<std::size_t>(i)].index = i;
      microbatches[static_cast<std::size_t>(i)].args = {at::full({3, 6}, 0.1 * i, at::kDouble)};
      microbatches[static_cast<std::size_t>(i)].kwargs["labels"] = at::zeros({3, 6}, at::kDouble);
    }
    const StepResult& result = executor.run_forward(microbatches);
    EXPECT_EQ(result.losses.size(), has_last ? 4u : 0u);
    for (const MicrobatchLoss& loss : result.losses) EXPECT_GT(loss.report.loss_sum, 0);
  };
  train(job);
  EXPECT_EQ(losses.size(), 4u);
}

}  // namespace
}  // namespace ppctl
