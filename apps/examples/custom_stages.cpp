// Trains a model of one's own in a pipeline of four ranks, without a job file: the ranks are threads of this process.
// The same code runs under mpirun with the communicator of connect_mpi() (comm/mpi/mpi.hpp).
#include "model/aten.hpp"

#include <cstdio>

#include "comm/inproc.hpp"
#include "runtime/autograd_module.hpp"
#include "runtime/pipeline_schedule.hpp"

namespace {

using namespace ppctl;

constexpr int kRanks = 4;
constexpr int kMicrobatches = 16;
constexpr int kRows = 64;  // of a batch
constexpr int kWidth = 16;
constexpr int kSteps = 20;

/// Weights that depend on the stage alone, so that every run prints the same.
at::Tensor initial_weight(int stage) {
  const at::Tensor numbers = at::arange(kWidth * kWidth, at::kFloat).view({kWidth, kWidth});
  return (at::sin(numbers * 1.7F + static_cast<float>(stage)) * 0.35F).requires_grad_(true);
}

/// One stage is one layer with a residual: any code that autograd can follow will do. The last stage has the loss.
std::shared_ptr<PipelineStage> make_stage(int stage) {
  const at::Tensor weight = initial_weight(stage);
  const auto forward = [weight](TensorList inputs) {
    return TensorList{inputs[0] + at::tanh(inputs[0].matmul(weight))};
  };
  AutogradModule::Loss loss;
  if (stage == kRanks - 1) {
    loss = [](const TensorList& outputs, const Microbatch& microbatch) {
      const at::Tensor error = (outputs[0] - microbatch.kwargs.at("target")).square().mean(1).sum();
      return LossValue{error, outputs[0].size(0), {}};
    };
  }
  auto module = std::make_shared<AutogradModule>(AutogradModule::PlainForward(forward),
                                                 std::vector<NamedTensor>{{"weight", weight}}, loss);
  return std::make_shared<PipelineStage>(std::move(module), stage, kRanks);
}

void sgd(PipelineStage& stage, double lr) {
  for (ParameterGroup* group : stage.module().parameter_groups()) {
    group->flat_data().sub_(group->flat_grad(), lr);
    group->zero_grad();
  }
}

void train(Communicator& communicator) {
  const int rank = communicator.transport().rank();
  const auto stage = make_stage(rank);

  PipelineOptions options;
  options.loss_scale = 1.0 / kRows;  // the gradient of the mean over the batch
  Schedule1F1B schedule(stage, kMicrobatches, communicator, options);

  // A custom function sees every step of a kind, and does the usual thing or something else.
  int sent = 0;
  schedule.register_custom_function(MetaStepType::SEND_BACKWARD, [&](const MetaStep&, StepContext& context) {
    ++sent;
    context.run_default();
  });

  const at::Tensor input = at::cos(at::arange(kRows * kWidth, at::kFloat)).view({kRows, kWidth});
  const at::Tensor target = input.flip(1);
  for (int step = 0; step < kSteps; ++step) {
    sent = 0;
    const std::vector<MicrobatchLoss> losses = schedule.run({input}, {{"target", target}});
    sgd(*stage, 0.2);
    if (losses.empty()) continue;  // not the rank of the last stage
    double sum = 0;
    for (const MicrobatchLoss& loss : losses) sum += loss.report.loss_sum;
    std::printf("step %d: loss %.6f, gradients of %d microbatches left rank %d\n", step, sum / kRows, sent, rank);
  }
}

}  // namespace

int main() {
  try {
    ppctl::run_inproc(kRanks, train);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
