#include "runtime/transposed_encoder.hpp"

#include <gtest/gtest.h>

#include <mutex>

#include "comm/inproc.hpp"
#include "runtime/autograd_module.hpp"
#include "runtime/pipeline_schedule.hpp"
#include "schedule/generator.hpp"
#include "support/divided_encoder.hpp"

namespace ppctl {
namespace {

constexpr int kRanks = 3;
constexpr int kMicrobatches = 6;
constexpr int kEncoderSeed = 50;

/// y = tanh(x · W); the last one's loss is the sum of squares.
std::shared_ptr<StageModule> make_module(int seed, bool is_last = false) {
  const at::Tensor w = at::sin(at::arange(16, at::kDouble) + seed).view({4, 4}).requires_grad_(true);
  AutogradModule::Loss loss;
  if (is_last) {
    loss = [](const TensorList& outputs, const Microbatch&) { return LossValue{outputs[0].square().sum(), 1, {}}; };
  }
  return std::make_shared<AutogradModule>(
      AutogradModule::PlainForward([w](TensorList x) { return TensorList{at::tanh(x[0].mm(w))}; }),
      std::vector<NamedTensor>{{"w", w}}, loss);
}

/// Makes weight gradients at once, whatever it is asked for.
class UndividedModule final : public StageModule {
 public:
  explicit UndividedModule(std::shared_ptr<StageModule> module) : module_(std::move(module)) {}
  TensorList forward(const Microbatch& microbatch, TensorList inputs, SavedActivations& saved,
                     LossReport* loss) override {
    return module_->forward(microbatch, std::move(inputs), saved, loss);
  }
  TensorList backward(const Microbatch& microbatch, TensorList output_grads, SavedActivations& saved,
                      WeightGradQueue& /*queue*/) override {
    WeightGradQueue at_once;
    at_once.begin_microbatch(microbatch.index, /*defer=*/false);
    return module_->backward(microbatch, std::move(output_grads), saved, at_once);
  }
  std::vector<ParameterGroup*> parameter_groups() override { return module_->parameter_groups(); }

 private:
  std::shared_ptr<StageModule> module_;
};

TensorList load(const Microbatch& microbatch) {
  return {at::cos(at::arange(8, at::kDouble) * (microbatch.index + 1)).view({2, 4})};
}

Schedule mpipe_schedule() {
  Schedule schedule = generate_schedule({.name = "1f1b", .pp = kRanks, .num_microbatches = kMicrobatches});
  PassOptions options;
  options.mpipe.enabled = true;
  lower_schedule(schedule, options);
  return schedule;
}

struct Trained {
  std::vector<double> losses;
  at::Tensor encoder_grad;
};

Trained train(const Schedule& schedule, bool can_divide, bool recomputes) {
  Trained trained;
  std::mutex mutex;
  run_inproc(kRanks, [&](Communicator& communicator) {
    const int rank = communicator.transport().rank();
    const auto stage = std::make_shared<PipelineStage>(make_module(rank, rank == kRanks - 1), rank, kRanks);
    PipelineSchedule pipeline(schedule, {stage}, communicator);
    std::shared_ptr<StageModule> module = make_module(kEncoderSeed);
    if (!can_divide) module = std::make_shared<UndividedModule>(module);
    const std::unique_ptr<Group> group = communicator.group(pipeline.options().world_ranks, "encoder");
    TransposedEncoder encoder(pipeline.schedule(),
                              {&communicator.transport(), PipelineRank(rank), pipeline.options().world_ranks}, module,
                              load, *group, {.recomputes = recomputes});
    pipeline.executor().set_hooks({.preprocess = &encoder});
    std::vector<Microbatch> microbatches(kMicrobatches);
    for (int j = 0; j < kMicrobatches; ++j) microbatches[static_cast<std::size_t>(j)].index = j;
    const StepResult& result = pipeline.executor().run(std::move(microbatches));
    const std::lock_guard lock(mutex);
    for (const MicrobatchLoss& loss : result.losses) trained.losses.push_back(loss.report.loss_sum);
    if (rank == 0) trained.encoder_grad = module->parameter_groups()[0]->flat_grad().clone();
  });
  return trained;
}

TEST(TransposedEncoder, GivesTheSameBitsWithItsBackwardWholeAndInHalvesInAnyOrder) {
  const Schedule whole = mpipe_schedule();
  const Trained wanted = train(whole, /*can_divide=*/true, /*recomputes=*/false);
  EXPECT_EQ(wanted.losses.size(), static_cast<std::size_t>(kMicrobatches));
  EXPECT_GT(wanted.encoder_grad.abs().max().item<double>(), 0.0);
  for (const bool recomputes : {false, true}) {
    for (const bool can_divide : {false, true}) {
      SCOPED_TRACE(testing::Message() << "recomputes " << recomputes << ", can divide " << can_divide);
      const Trained got = train(test::with_divided_encoder(whole), can_divide, recomputes);
      EXPECT_EQ(got.losses, wanted.losses);
      EXPECT_TRUE(at::equal(got.encoder_grad, wanted.encoder_grad));
    }
  }
}

}  // namespace
}  // namespace ppctl
