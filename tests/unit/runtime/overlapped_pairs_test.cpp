#include "runtime/overlapped_pairs.hpp"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "base/error.hpp"
#include "comm/inproc.hpp"
#include "runtime/pipeline_schedule.hpp"
#include "runtime/tensor_meter.hpp"
#include "trace/timeline_stats.hpp"
#include "unit/runtime/toy_pipeline.hpp"

namespace ppctl {
namespace {

using toy::Job;
using toy::Layer;

Job overlapped(const std::string& schedule, int pp) {
  Job job;
  job.schedule = schedule;
  job.pp = pp;
  job.num_microbatches = 2 * pp;
  job.passes.overlap_b_f = true;
  job.two_threads = true;
  return job;
}

TEST(OverlappedPairs, GiveTheBitsOfOneRank) {
  for (const char* schedule : {"1f1b", "interleaved_1f1b", "dualpipe_v"}) {
    for (const int passes : {0, 1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{}, passes {}", schedule, passes));
      Job job = overlapped(schedule, 2);
      job.dtype = at::kFloat;
      job.layers = {Layer::kTwice, Layer::kFrozen,    Layer::kNoParameters, Layer::kDense,
                    Layer::kSkip,  Layer::kForgetful, Layer::kSkip,         Layer::kForgetful};
      job.ragged = true;
      job.passes.overlap_p2p = (passes & 1) != 0;
      job.passes.duplex = (passes & 2) != 0;
      toy::expect_same_bits(toy::train(job), toy::train_alone(job));
    }
  }
}

TEST(OverlappedPairs, GiveTheSameBitsInABidirectionalPipeline) {
  Job job = overlapped("dualpipe", 4);
  job.num_microbatches = 16;
  const toy::Result two_threads = toy::train(job);
  job.two_threads = false;
  toy::expect_same_bits(two_threads, toy::train(job));
}

TEST(OverlappedPairs, GiveTheSameBitsWhenTheirStepIsBegunTwice) {
  Job job = overlapped("interleaved_1f1b", 2);
  job.validation = toy::Validation::kAbandons;
  toy::expect_same_bits(toy::train(job), toy::train_alone(job));
}

TEST(OverlappedPairs, CountTheirTimeOnceAndDrawTheForwardBesideTheBackward) {
  Job job = overlapped("1f1b", 2);
  std::atomic<int> forwards_beside{0};
  job.customise = [](Executor& executor) { executor.set_record_spans(true); };
  job.after_step = [&](Executor& executor, const StepResult& result) {
    EXPECT_LE(result.busy, result.end - result.start);
    Nanoseconds main_lane = 0;
    for (const RecordedSpan& span : result.spans) {
      if (span.lane == 1) {
        EXPECT_TRUE(span.kind == EventKind::kForward || span.kind == EventKind::kWait);
        forwards_beside += span.kind == EventKind::kForward;
      } else if (is_work(span.kind)) {
        main_lane += span.end - span.start;
      }
    }
    EXPECT_LE(main_lane, result.busy) << "on rank " << executor.rank().value;
  };
  toy::train(job);
  // The first pair of each rank; it shows that there are no exchanges, and so nothing to hide in the others.
  EXPECT_EQ(forwards_beside, 2);
}

/// Notes the threads and the thread-local state of forwards.
class WatchingModule : public StageModule {
 public:
  explicit WatchingModule(bool is_last, bool fails) : is_last_(is_last), fails_(fails) {}

  TensorList forward(const Microbatch& microbatch, TensorList, SavedActivations& saved, LossReport* loss) override {
    saved.push(at::zeros({1000}, at::kFloat));
    threads_.insert(std::this_thread::get_id());
    if (at::GradMode::is_enabled()) grad_mode_seen_ = true;
    if (fails_ && microbatch.index == 1) at::zeros({2}).mm(at::zeros({3}));
    if (loss != nullptr) loss->num_labels = 1;
    return is_last_ ? TensorList{} : TensorList{at::zeros({4}, at::kFloat)};
  }
  TensorList backward(const Microbatch&, TensorList, SavedActivations& saved, WeightGradQueue&) override {
    saved.pop();
    return {at::zeros({4}, at::kFloat)};
  }
  std::vector<ParameterGroup*> parameter_groups() override { return {}; }

  std::set<std::thread::id> threads_;
  bool grad_mode_seen_ = false;

 private:
  bool is_last_;
  bool fails_;
};

/// Runs a step of two ranks under 1F1B with pairs; `look` sees each rank's module and meter afterwards, `texts` gets
/// what each rank throws.
void run_watched(bool fails, const std::function<void(const WatchingModule&, const TensorMeter&)>& look,
                 std::array<std::string, 2>* texts = nullptr) {
  run_inproc(2, [&](Communicator& communicator) {
    const int rank = communicator.transport().rank();
    const TensorMeter meter;
    const at::NoGradGuard no_grad;
    auto module = std::make_shared<WatchingModule>(rank == 1, fails && rank == 1);
    PipelineOptions options;
    options.passes.overlap_b_f = true;
    options.executor.timeout_s = 60;
    Schedule1F1B pipeline(std::make_shared<PipelineStage>(module, rank, 2), 8, communicator, options);
    try {
      pipeline.run({at::zeros({8, 1})});
    } catch (const Error& error) {
      if (texts != nullptr) (*texts)[static_cast<std::size_t>(rank)] = error.what();
      throw;
    }
    look(*module, meter);
  });
}

TEST(OverlappedPairs, RunForwardsOnOneSecondThreadInTheStateOfTheFirst) {
  std::mutex mutex;
  run_watched(false, [&](const WatchingModule& module, const TensorMeter& meter) {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(module.threads_.size(), 2u) << "the rank's own thread and one more";
    EXPECT_FALSE(module.grad_mode_seen_);
    // Activations that one thread allocates and the other one frees.
    EXPECT_GT(meter.peak_bytes(), 4000);
    EXPECT_LT(meter.live_bytes(), 4000);
  });
}

TEST(OverlappedPairs, NameRankStepAndBothSidesWhenAnOperatorFails) {
  std::array<std::string, 2> texts;
  EXPECT_THROW(run_watched(true, [](const WatchingModule&, const TensorMeter&) {}, &texts), Error);
  EXPECT_TRUE(texts[1].starts_with("rank 1, step 0, ")) << texts[1];
  EXPECT_NE(texts[1].find("the forward of the pair failed: "), std::string::npos) << texts[1];
  EXPECT_NE(texts[1].find("its backward"), std::string::npos) << texts[1];
  for (const std::string& text : texts) {
    EXPECT_EQ(text.find("Exception raised from"), std::string::npos) << "a backtrace: " << text;
  }
  // The other rank is told at once, unless it was done.
  if (!texts[0].empty()) {
    EXPECT_NE(texts[0].find("rank 1 failed: step 0, "), std::string::npos) << texts[0];
  }
}

}  // namespace
}  // namespace ppctl
