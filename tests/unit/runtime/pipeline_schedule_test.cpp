#include "runtime/pipeline_schedule.hpp"

#include <gtest/gtest.h>

#include <mutex>

#include "base/error.hpp"
#include "comm/inproc.hpp"
#include "runtime/autograd_module.hpp"

namespace ppctl {
namespace {

/// Stage s of n: y = tanh(x · W_s); the last one's loss is the sum of squares against the labels.
StagePtr make_stage(int index, int count) {
  const at::Tensor w = (at::sin(at::arange(16, at::kDouble) + index).view({4, 4})).requires_grad_(true);
  AutogradModule::Loss loss;
  if (index == count - 1) {
    loss = [](const TensorList& outputs, const Microbatch& microbatch) {
      const auto labels = microbatch.kwargs.find("labels");
      if (labels == microbatch.kwargs.end()) return LossValue();
      return LossValue{(outputs[0] - labels->second).square().sum(), outputs[0].size(0), {}};
    };
  }
  auto module = std::make_shared<AutogradModule>(
      AutogradModule::PlainForward([w](TensorList x) { return TensorList{at::tanh(x[0].mm(w))}; }),
      std::vector<NamedTensor>{{fmt::format("w{}", index), w}}, loss);
  return std::make_shared<PipelineStage>(std::move(module), index, count);
}

const at::Tensor kInput = at::cos(at::arange(32, at::kDouble)).view({8, 4});
const at::Tensor kLabels = at::ones({8, 4}, at::kDouble);

using Build = std::function<std::unique_ptr<PipelineSchedule>(Communicator&)>;

/// The losses that any rank got, and who got them.
std::pair<std::vector<double>, int> losses_of(int ranks, const Build& build) {
  std::pair<std::vector<double>, int> found{{}, -1};
  std::mutex mutex;
  run_inproc(ranks, [&](Communicator& communicator) {
    const auto schedule = build(communicator);
    const std::vector<MicrobatchLoss> losses = schedule->run({kInput}, {{"labels", kLabels}});
    const std::lock_guard lock(mutex);
    if (losses.empty()) return;
    EXPECT_EQ(found.second, -1);
    found.second = communicator.transport().rank();
    for (const MicrobatchLoss& loss : losses) found.first.push_back(loss.report.loss_sum);
  });
  return found;
}

Build gpipe(int count) {
  return [count](Communicator& c) {
    return std::make_unique<ScheduleGPipe>(make_stage(c.transport().rank(), count), 4, c);
  };
}

/// Four stages on one rank, as four chunks.
std::vector<double> alone() {
  return losses_of(1,
                   [](Communicator& c) {
                     std::vector<StagePtr> stages;
                     for (int i = 0; i < 4; ++i) stages.push_back(make_stage(i, 4));
                     return std::make_unique<PipelineSchedule>("interleaved_1f1b", stages, 4, c);
                   })
      .first;
}

TEST(PipelineSchedule, GivesTheLossesOfAllMicrobatchesOnTheLastStage) {
  const auto [losses, rank] = losses_of(4, gpipe(4));
  EXPECT_EQ(losses.size(), 4u);
  EXPECT_EQ(rank, 3);
  EXPECT_EQ(losses, alone());
}

TEST(PipelineSchedule, GivesTheSameLossesAs1F1BAndInterleaved) {
  const std::vector<double> wanted = alone();
  EXPECT_EQ(
      losses_of(
          4, [](Communicator& c) { return std::make_unique<Schedule1F1B>(make_stage(c.transport().rank(), 4), 4, c); })
          .first,
      wanted);
  for (const bool overlap : {false, true}) {
    EXPECT_EQ(losses_of(2,
                        [overlap](Communicator& c) {
                          const int rank = c.transport().rank();
                          return std::make_unique<ScheduleInterleaved1F1B>(
                              std::vector<StagePtr>{make_stage(rank, 4), make_stage(rank + 2, 4)}, 4, c, overlap,
                              overlap);
                        })
                  .first,
              wanted);
  }
}

TEST(PipelineSchedule, RunsForwardAloneOnTheRankOfTheLastStage) {
  run_inproc(2, [](Communicator& communicator) {
    const auto schedule =
        std::make_unique<Schedule1F1B>(make_stage(communicator.transport().rank(), 2), 4, communicator);
    const std::vector<TensorList> outputs = schedule->run_forward({kInput});
    ASSERT_EQ(outputs.size(), 4u);
    for (const TensorList& output : outputs) {
      ASSERT_EQ(output.size(), communicator.transport().rank() == 1 ? 1u : 0u);
      if (!output.empty()) {
        EXPECT_EQ(output[0].sizes(), (std::vector<std::int64_t>{2, 4}));
      }
    }
  });
}

std::string error_of(int ranks, const Build& build) {
  try {
    run_inproc(ranks, [&](Communicator& communicator) { build(communicator)->run({kInput}, {{"labels", kLabels}}); });
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(PipelineSchedule, RefusesAStageThatBelongsElsewhere) {
  EXPECT_EQ(error_of(2, [](Communicator& c) { return std::make_unique<ScheduleGPipe>(make_stage(0, 2), 4, c); }),
            "chunk 0 of rank 1 is stage 0 of 2, but schedule gpipe wants stage 1 of 2 there");
}

TEST(PipelineSchedule, RefusesABatchThatCannotBeSplit) {
  const std::string text =
      error_of(1, [](Communicator& c) { return std::make_unique<ScheduleGPipe>(make_stage(0, 1), 3, c); });
  EXPECT_EQ(text, "input 0: 8 rows in dim 0 cannot be split into 3 microbatches of equal size");
}

}  // namespace
}  // namespace ppctl
