#include "runtime/pipeline_stage.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "runtime/autograd_module.hpp"

namespace ppctl {
namespace {

/// y = x · w, as a stage in the middle of three.
struct Middle {
  at::Tensor weight = at::ones({2, 2}, at::kDouble).requires_grad_(true);
  PipelineStage stage{
      std::make_shared<AutogradModule>([w = weight](TensorList inputs) { return TensorList{inputs[0].matmul(w)}; },
                                       std::vector<NamedTensor>{{"weight", weight}}),
      1, 3};
  std::vector<Microbatch> microbatches = std::vector<Microbatch>(2);
  TensorList ones{at::ones({1, 2}, at::kDouble)};

  Middle() {
    microbatches[0].step = microbatches[1].step = 12;
    stage.begin_step(microbatches);
  }
};

std::string bug_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Bug& bug) {
    return bug.what();
  }
  return "nothing was thrown";
}

TEST(PipelineStage, QueuesWeightGradientsUntilTheyAreAskedFor) {
  Middle middle;
  at::Tensor grad = middle.stage.module().parameter_groups()[0]->grad(0);
  middle.stage.forward(0, middle.ones);
  const TensorList input_grads = middle.stage.backward_input(0, middle.ones);
  EXPECT_TRUE(at::equal(input_grads[0], at::full({1, 2}, 2.0, at::kDouble)));
  EXPECT_TRUE(at::equal(grad, at::zeros({2, 2}, at::kDouble)));
  middle.stage.backward_weight(0);
  EXPECT_TRUE(at::equal(grad, at::ones({2, 2}, at::kDouble)));
}

TEST(PipelineStage, EndsAStepInWhichEveryMicrobatchWentThrough) {
  Middle middle;
  for (int i = 0; i < 2; ++i) middle.stage.forward(i, middle.ones);
  for (int i = 0; i < 2; ++i) middle.stage.backward(i, middle.ones);
  middle.stage.end_step();
}

TEST(PipelineStage, NamesTheMicrobatchWhoseWeightGradientsAreStillQueuedAtTheEnd) {
  Middle middle;
  middle.stage.forward(1, middle.ones);
  middle.stage.backward_input(1, middle.ones);
  EXPECT_NE(bug_of([&] {
              middle.stage.end_step();
            }).find("stage 1, microbatch 1, step 12: weight gradients are still queued at the end of the step"),
            std::string::npos);
}

TEST(PipelineStage, NamesTheMicrobatchThatNeverGotItsBackward) {
  Middle middle;
  middle.stage.forward(0, middle.ones);
  EXPECT_NE(bug_of([&] {
              middle.stage.end_step();
            }).find("stage 1, microbatch 0, step 12: the step ends without its backward"),
            std::string::npos);
}

TEST(PipelineStage, RefusesABackwardBeforeItsForward) {
  Middle middle;
  EXPECT_NE(bug_of([&] {
              middle.stage.backward(0, middle.ones);
            }).find("stage 1, microbatch 0, step 12: backward after nothing, not after the forward"),
            std::string::npos);
}

TEST(PipelineStage, RefusesAWeightGradientThatNobodyQueued) {
  Middle middle;
  middle.stage.forward(0, middle.ones);
  EXPECT_NE(bug_of([&] {
              middle.stage.backward_weight(0);
            }).find("BACKWARD_WEIGHT after the forward, not after BACKWARD_INPUT"),
            std::string::npos);
}

TEST(PipelineStage, DropsWhatAFailedStepLeft) {
  Middle middle;
  middle.stage.forward(0, middle.ones);
  middle.stage.backward_input(0, middle.ones);
  middle.stage.begin_step(middle.microbatches);
  for (int i = 0; i < 2; ++i) {
    middle.stage.forward(i, middle.ones);
    middle.stage.backward(i, middle.ones);
  }
  middle.stage.end_step();
}

TEST(PipelineStage, KeepsNothingInAnEvaluation) {
  Middle middle;
  for (Microbatch& microbatch : middle.microbatches) microbatch.training = false;
  middle.stage.forward(0, middle.ones);
  EXPECT_FALSE(middle.stage.saved(0).extra.has_value());
  middle.stage.end_step();
}

}  // namespace
}  // namespace ppctl
