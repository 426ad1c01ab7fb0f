// An audio encoder of one's own (1-D convolutions) before a pipeline of four ranks. It is transposed over microbatches:
// each rank makes, or would read, the recordings of its own microbatches and encodes them; the first stage gets the
// features. The model learns to tell the pitch of a tone. Losses are checked against those of one rank.
#include "model/aten.hpp"

#include <ATen/ops/conv1d.h>

#include <cmath>
#include <cstdio>

#include "base/error.hpp"
#include "comm/inproc.hpp"
#include "runtime/autograd_module.hpp"
#include "runtime/mpipe_schedule.hpp"

namespace {

using namespace ppctl;

constexpr int kRanks = 4;
constexpr int kMicrobatches = 8;
constexpr int kRecordings = 4;  // of a microbatch
constexpr int kSamples = 400;   // of a recording
constexpr int kChannels = 8;
constexpr int kSteps = 20;
constexpr double kLearningRate = 0.5;

at::Tensor initial(at::IntArrayRef shape, int seed, double scale) {
  std::int64_t numel = 1;
  for (const std::int64_t size : shape) numel *= size;
  return (at::sin(at::arange(numel, at::kDouble) * 1.7 + seed).view(shape) * scale).requires_grad_(true);
}

/// One a recording, between 0 and 1.
at::Tensor pitches() {
  const int count = kMicrobatches * kRecordings;
  return at::arange(count, at::kDouble) / static_cast<double>(count);
}

/// The tones of a microbatch: [recordings, 1, samples]. A program for real data reads its files here.
TensorList load(const Microbatch& microbatch) {
  const at::Tensor pitch = pitches().narrow(0, static_cast<std::int64_t>(microbatch.index) * kRecordings, kRecordings);
  const at::Tensor time = at::arange(kSamples, at::kDouble) * 0.2;
  return {at::sin((pitch + 0.2).view({kRecordings, 1, 1}) * time)};
}

/// Two strided convolutions: [recordings, 1, samples] -> [recordings, frames, channels].
std::shared_ptr<StageModule> make_encoder() {
  const at::Tensor first = initial({kChannels, 1, 10}, 11, 0.3);
  const at::Tensor second = initial({kChannels, kChannels, 4}, 12, 0.3);
  const auto forward = [first, second](TensorList audio) {
    const at::Tensor hidden = at::conv1d(audio[0], first, {}, 5).square();
    return TensorList{at::tanh(at::conv1d(hidden, second, {}, 2)).transpose(1, 2)};
  };
  return std::make_shared<AutogradModule>(AutogradModule::PlainForward(forward),
                                          std::vector<NamedTensor>{{"conv1", first}, {"conv2", second}});
}

/// One layer with a residual. The last stage compares the mean over frames and channels with the pitch.
StagePtr make_stage(int stage) {
  const at::Tensor weight = initial({kChannels, kChannels}, stage, 0.35);
  const auto forward = [weight](TensorList inputs) {
    return TensorList{inputs[0] + at::tanh(inputs[0].matmul(weight))};
  };
  AutogradModule::Loss loss;
  if (stage == kRanks - 1) {
    loss = [](const TensorList& outputs, const Microbatch& microbatch) {
      const at::Tensor heard = outputs[0].flatten(1).mean(1);
      return LossValue{(heard - microbatch.kwargs.at("pitch")).square().sum(), kRecordings, {}};
    };
  }
  auto module = std::make_shared<AutogradModule>(AutogradModule::PlainForward(forward),
                                                 std::vector<NamedTensor>{{"weight", weight}}, loss);
  return std::make_shared<PipelineStage>(std::move(module), stage, kRanks);
}

void sgd(StageModule& module) {
  for (ParameterGroup* group : module.parameter_groups()) {
    group->flat_data().sub_(group->flat_grad(), kLearningRate);
    group->zero_grad();
  }
}

/// Trains on `ranks` ranks, threads of this process. Gives the mean loss of each step.
std::vector<double> train(int ranks) {
  std::vector<double> means;
  run_inproc(ranks, [&](Communicator& communicator) {
    const int rank = communicator.transport().rank();
    std::vector<StagePtr> stages;
    for (int stage = rank; stage < kRanks; stage += ranks) stages.push_back(make_stage(stage));
    const auto encoder = make_encoder();  // every rank has one

    TransposeOptions transpose;
    transpose.body = stages.size() == 1 ? "1f1b" : "interleaved_1f1b";
    transpose.just_in_time = true;
    transpose.load = load;
    PipelineOptions options;
    options.loss_scale = 1.0 / (kMicrobatches * kRecordings);
    ScheduleMPipeTranspose schedule(stages, kMicrobatches, encoder, 1, communicator, transpose, options);
    for (int step = 0; step < kSteps; ++step) {
      const std::vector<MicrobatchLoss> losses = schedule.run({}, {{"pitch", pitches()}});
      for (const StagePtr& stage : stages) sgd(stage->module());
      sgd(*encoder);                 // its gradients are the same on all ranks
      if (losses.empty()) continue;  // not the rank of the last stage
      double sum = 0;
      for (const MicrobatchLoss& loss : losses) sum += loss.report.loss_sum;
      means.push_back(sum * options.loss_scale);
    }
  });
  return means;
}

void compare() {
  const std::vector<double> losses = train(kRanks);
  const std::vector<double> alone = train(1);
  for (std::size_t step = 0; step < alone.size(); ++step) {
    const double difference = std::abs(losses.at(step) - alone[step]);
    std::printf("step %zu: loss %.6f, on one rank %.6f\n", step, losses[step], alone[step]);
    if (!(difference < 1e-6)) throw_error("step {}: the losses differ by {}", step, difference);
  }
  if (!(losses.back() < losses.front())) throw_error("the loss did not fall");
  std::printf("%zu steps: the losses of %d ranks are those of one\n", losses.size(), kRanks);
}

}  // namespace

int main() {
  try {
    compare();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
