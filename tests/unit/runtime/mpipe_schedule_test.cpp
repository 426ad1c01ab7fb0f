#include "runtime/mpipe_schedule.hpp"

#include <gtest/gtest.h>

#include <mutex>

#include "base/error.hpp"
#include "comm/inproc.hpp"
#include "runtime/activation_swap.hpp"
#include "runtime/autograd_module.hpp"
#include "runtime/swap_wrapper.hpp"

namespace ppctl {
namespace {

at::Tensor weight(int seed) { return at::sin(at::arange(16, at::kDouble) + seed).view({4, 4}).requires_grad_(true); }

using ModulePtr = std::shared_ptr<AutogradModule>;

/// What a module computes: two layers with one weight, so that there is something between its input and its output.
TensorList two_layers(const at::Tensor& x, const at::Tensor& w) { return {at::tanh(at::tanh(x.mm(w)).mm(w))}; }

/// The last one's loss is the sum of squares against the labels.
ModulePtr make_module(int seed, bool is_last = false, bool frozen = false) {
  const at::Tensor w = weight(seed).requires_grad_(!frozen);
  AutogradModule::Loss loss;
  if (is_last) {
    loss = [](const TensorList& outputs, const Microbatch& microbatch) {
      return LossValue{(outputs[0] - microbatch.kwargs.at("labels")).square().sum(), outputs[0].size(0), {}};
    };
  }
  return std::make_shared<AutogradModule>(
      AutogradModule::PlainForward(swap_wrapper([w](const TensorList& x) { return two_layers(x[0], w); })),
      std::vector<NamedTensor>{{"w", w}}, loss);
}

StagePtr make_stage(int index, int count) {
  return std::make_shared<PipelineStage>(make_module(index, index == count - 1), index, count);
}

constexpr int kEncoderSeed = 50;
const at::Tensor kLabels = at::ones({24, 4}, at::kDouble);

at::Tensor input() { return at::cos(at::arange(96, at::kDouble)).view({24, 4}); }
at::Tensor gradient_of(AutogradModule& module) { return module.parameter_groups()[0]->flat_grad(); }

struct Trained {
  std::vector<double> losses;  ///< of all steps
  at::Tensor encoder_grad;     ///< summed over the steps
};

/// Two steps, between which gradients are not zeroed.
void run_steps(PipelineSchedule& schedule, std::vector<double>& losses) {
  for (int step = 0; step < 2; ++step) {
    for (const MicrobatchLoss& loss : schedule.run({input()}, {{"labels", kLabels}})) {
      losses.push_back(loss.report.loss_sum);
    }
  }
}

/// `stages` stages behind the encoder, which is a stage like the others, on one rank.
Trained train_alone(int stages, int microbatches) {
  Trained trained;
  run_inproc(1, [&](Communicator& communicator) {
    const ModulePtr encoder = make_module(kEncoderSeed);
    std::vector<StagePtr> all = {std::make_shared<PipelineStage>(encoder, 0, stages + 1)};
    for (int i = 0; i < stages; ++i) {
      all.push_back(std::make_shared<PipelineStage>(make_module(i, i == stages - 1), i + 1, stages + 1));
    }
    PipelineSchedule schedule("interleaved_1f1b", all, microbatches, communicator);
    run_steps(schedule, trained.losses);
    trained.encoder_grad = gradient_of(*encoder).clone();
  });
  return trained;
}

/// On `ranks` ranks with `chunks` stages each, where every rank but 0 begins with another encoder. Checks that all have
/// the same gradients. `swapped` gets what rank 0's swap has done.
Trained train_chunks(int ranks, int chunks, int microbatches, const TransposeOptions& options,
                     const PassOptions& passes = {}, SwapStats* swapped = nullptr) {
  Trained trained;
  std::mutex mutex;
  run_inproc(ranks, [&](Communicator& communicator) {
    const int rank = communicator.transport().rank();
    const ModulePtr encoder = make_module(kEncoderSeed + rank);
    std::vector<StagePtr> stages;
    for (int chunk = 0; chunk < chunks; ++chunk) stages.push_back(make_stage(chunk * ranks + rank, ranks * chunks));
    PipelineOptions pipeline;
    pipeline.passes = passes;
    ActivationSwap swap(make_memory_store(0), 60);
    ScheduleMPipeTranspose schedule(stages, microbatches, encoder, 1, communicator, options, pipeline);
    schedule.set_hooks({.swap = &swap});
    std::vector<double> losses;
    run_steps(schedule, losses);
    const std::lock_guard lock(mutex);
    if (!losses.empty()) trained.losses = losses;
    if (!trained.encoder_grad.defined()) trained.encoder_grad = gradient_of(*encoder).clone();
    if (rank == 0 && swapped != nullptr) *swapped = swap.stats();
    EXPECT_TRUE(at::equal(trained.encoder_grad, gradient_of(*encoder))) << "rank " << rank;
  });
  return trained;
}

Trained train_transposed(int ranks, int microbatches, const TransposeOptions& options, bool splits_backward = false) {
  PassOptions passes;
  passes.mpipe.splits_backward = splits_backward;
  return train_chunks(ranks, 1, microbatches, options, passes);
}

void expect_same(const Trained& got, const Trained& wanted) {
  EXPECT_FALSE(wanted.losses.empty());
  EXPECT_EQ(got.losses, wanted.losses);
  EXPECT_TRUE(at::equal(got.encoder_grad, wanted.encoder_grad));
}

TEST(ScheduleMPipeTranspose, TrainsAUsersEncoderAsOneRankDoesToTheLastBit) {
  const Trained wanted = train_alone(4, 8);
  for (const bool just_in_time : {false, true}) {
    for (const bool recomputes : {false, true}) {
      SCOPED_TRACE(testing::Message() << "just in time " << just_in_time << ", recomputes " << recomputes);
      TransposeOptions options;
      options.just_in_time = just_in_time;
      options.recomputes = recomputes;
      expect_same(train_transposed(4, 8, options), wanted);
    }
  }
}

TEST(ScheduleMPipeTranspose, PlacesTheHalvesOfTheBackwardApartWhereItIsAskedTo) {
  const Trained wanted = train_alone(4, 8);
  for (const bool recomputes : {false, true}) {
    TransposeOptions options;
    options.just_in_time = true;
    options.recomputes = recomputes;
    expect_same(train_transposed(4, 8, options, /*splits_backward=*/true), wanted);
  }
}

TEST(ScheduleMPipeTranspose, ComposesWithBodiesAndTheirCommunication) {
  const Trained wanted = train_alone(4, 8);
  PassOptions grouped;
  grouped.duplex = true;
  PassOptions early;
  early.overlap_p2p = true;
  PassOptions pairs;
  pairs.overlap_b_f = true;
  PassOptions all = pairs;
  all.overlap_p2p = true;
  all.duplex = true;
  for (const char* body : {"1f1b", "interleaved_1f1b"}) {
    for (const PassOptions& passes : {grouped, early, pairs, all}) {
      SCOPED_TRACE(testing::Message() << body << ", duplex " << passes.duplex << ", overlap_p2p " << passes.overlap_p2p
                                      << ", overlap_b_f " << passes.overlap_b_f);
      TransposeOptions options;
      options.body = body;
      options.just_in_time = true;
      const int chunks = std::string_view(body) == "1f1b" ? 1 : 2;
      expect_same(train_chunks(4 / chunks, chunks, 8, options, passes), wanted);
    }
  }
}

TEST(ScheduleMPipeTranspose, ComposesWithSwap) {
  PassOptions passes;
  passes.swap = true;
  TransposeOptions options;
  options.body = "interleaved_1f1b";
  for (const bool just_in_time : {false, true}) {
    options.just_in_time = just_in_time;
    SwapStats stats;
    expect_same(train_chunks(2, 2, 8, options, passes, &stats), train_alone(4, 8));
    EXPECT_GT(stats.bytes, 0);
  }
}

TEST(ScheduleMPipeTranspose, NeedsNoMoreMicrobatchesThanOne) {
  expect_same(train_transposed(3, 2, {}), train_alone(3, 2));
  expect_same(train_transposed(3, 1, {}), train_alone(3, 1));
}

TEST(ScheduleMPipeTranspose, LoadsAndEncodesAMicrobatchOnItsOwnerAlone) {
  std::vector<std::vector<int>> loaded(3);
  run_inproc(3, [&](Communicator& communicator) {
    const int rank = communicator.transport().rank();
    TransposeOptions options;
    options.load = [&](const Microbatch& microbatch) {
      loaded[static_cast<std::size_t>(rank)].push_back(microbatch.index);
      return TensorList{input().narrow(0, microbatch.index, 1)};
    };
    // Its parameters are frozen, so nothing comes back.
    ScheduleMPipeTranspose schedule({make_stage(rank, 3)}, 6, make_module(kEncoderSeed, false, /*frozen=*/true), 1,
                                    communicator, options);
    const auto losses = schedule.run({}, {{"labels", kLabels.narrow(0, 0, 6)}});
    EXPECT_EQ(losses.size(), rank == 2 ? 6u : 0u);
  });
  EXPECT_EQ(loaded, (std::vector<std::vector<int>>{{0, 3}, {1, 4}, {2, 5}}));
}

TEST(ScheduleMPipeTranspose, TransposesDataAloneWhereNoLayersAre) {
  std::vector<double> losses;
  std::vector<double> wanted;
  run_inproc(3, [&](Communicator& communicator) {
    const int rank = communicator.transport().rank();
    ScheduleMPipeTranspose transposed({make_stage(rank, 3)}, 6, nullptr, 0, communicator);
    Schedule1F1B plain(make_stage(rank, 3), 6, communicator);
    std::vector<double> got;
    run_steps(transposed, got);
    std::vector<double> without;
    run_steps(plain, without);
    if (rank != 2) return;
    losses = got;
    wanted = without;
  });
  EXPECT_EQ(losses.size(), 12u);
  EXPECT_EQ(losses, wanted);
}

TEST(ScheduleMPipeTranspose, GivesTheOutputsOfForwardAlone) {
  run_inproc(2, [](Communicator& communicator) {
    const int rank = communicator.transport().rank();
    const auto stage = std::make_shared<PipelineStage>(make_module(rank), rank, 2);
    ScheduleMPipeTranspose schedule({stage}, 4, make_module(kEncoderSeed), 1, communicator);
    const std::vector<TensorList> outputs = schedule.run_forward({input()});
    if (rank == 0) return;
    at::Tensor expected = input().narrow(0, 6, 6);
    for (const int seed : {kEncoderSeed, 0, 1}) expected = two_layers(expected, weight(seed).detach())[0];
    EXPECT_TRUE(at::equal(outputs.at(1).at(0), expected));
  });
}

std::string error_of(const ModulePtr& module, int num_transpose_layers, TransposeOptions options = {}) {
  try {
    run_inproc(1, [&](Communicator& communicator) {
      ScheduleMPipeTranspose({make_stage(0, 1)}, 4, module, num_transpose_layers, communicator, options);
    });
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(ScheduleMPipeTranspose, RefusesAModuleThatDoesNotFitTheNumberOfLayers) {
  EXPECT_EQ(error_of(nullptr, 1), "num_transpose_layers is 1, but there is no preprocess module");
  EXPECT_EQ(error_of(make_module(0), 0),
            "num_transpose_layers is 0, so the preprocess module would not run: leave it to the first stage");
  EXPECT_EQ(error_of(make_module(0), -1), "num_transpose_layers is -1, not 0 or more");
  TransposeOptions options;
  options.consumer = 1;
  EXPECT_EQ(error_of(make_module(0), 1, options), "mpipe: there is no stage 1 to take the features");
}

}  // namespace
}  // namespace ppctl
