#include "runtime/activation_swap.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "base/error.hpp"
#include "runtime/executor.hpp"
#include "unit/runtime/toy_pipeline.hpp"

namespace ppctl {
namespace {

using toy::Job;
using toy::Layer;

/// Swaps of the ranks of a toy job, kept for as long as their executors.
class Swaps {
 public:
  explicit Swaps(std::function<std::unique_ptr<SwapStore>(int rank)> store) : store_(std::move(store)) {}

  void attach(Job& job) {
    job.passes.swap = true;
    job.swaps = true;
    job.customise = [this](Executor& executor) {
      auto swap = std::make_unique<ActivationSwap>(store_(executor.rank().value), 60);
      executor.set_hooks({.swap = swap.get()});
      const std::lock_guard lock(mutex_);
      swaps_.push_back(std::move(swap));
    };
  }
  SwapStats sum() const {
    SwapStats sum;
    for (const auto& swap : swaps_) {
      sum.offloads += swap->stats().offloads;
      sum.bytes += swap->stats().bytes;
    }
    return sum;
  }

 private:
  std::function<std::unique_ptr<SwapStore>(int)> store_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ActivationSwap>> swaps_;
};

Job job_of(const char* schedule, std::vector<Layer> layers) {
  Job job;
  job.schedule = schedule;
  job.pp = 4;
  job.num_microbatches = 8;
  job.layers = std::move(layers);
  return job;
}

TEST(SwapWrapper, AroundLayersOfTheUsersOwnLeavesEveryBit) {
  const std::vector<std::vector<Layer>> models = {std::vector<Layer>(16, Layer::kDense),
                                                  {Layer::kTwice, Layer::kDense, Layer::kFrozen, Layer::kNoParameters,
                                                   Layer::kSkip, Layer::kForgetful, Layer::kSkip, Layer::kTwice}};
  for (const auto& layers : models) {
    for (const char* schedule : {"1f1b", "gpipe", "zb_h1", "zb_v"}) {
      const Job plain = job_of(schedule, layers);
      const toy::Result expected = toy::train(plain);
      Job job = plain;
      Swaps swaps([](int) { return make_memory_store(0); });
      swaps.attach(job);
      const toy::Result got = toy::train(job);
      EXPECT_EQ(got.losses, expected.losses) << schedule;
      for (const auto& [name, weight] : expected.weights) {
        EXPECT_TRUE(at::equal(got.weights.at(name), weight)) << schedule << ", " << name;
      }
      EXPECT_GT(swaps.sum().offloads, 0) << schedule;
    }
  }
}

/// Fails the n-th write.
class FailingStore : public SwapStore {
 public:
  explicit FailingStore(int writes) : left_(writes) {}
  Slot take(std::size_t bytes) override { return store_->take(bytes); }
  void give(Slot slot) override { store_->give(slot); }
  void write(Slot slot, std::span<const std::span<const std::byte>> parts) override {
    if (--left_ < 0) throw_error("swap.folder /full: cannot write: No space left on device");
    store_->write(slot, parts);
  }
  void read(Slot slot, std::span<const std::span<std::byte>> parts) override { store_->read(slot, parts); }
  std::size_t most_bytes() const override { return store_->most_bytes(); }

 private:
  std::unique_ptr<SwapStore> store_ = make_memory_store(0);
  std::atomic<int> left_;
};

TEST(ActivationSwap, ThatFailsInTheMiddleEndsEveryRankWithTheRankTheStepAndTheCause) {
  Job job = job_of("1f1b", std::vector<Layer>(8, Layer::kDense));
  // Rank 0 offloads eight microbatches a step: the first two of the second step go well.
  Swaps swaps([](int rank) -> std::unique_ptr<SwapStore> {
    return rank == 0 ? std::make_unique<FailingStore>(10) : make_memory_store(0);
  });
  swaps.attach(job);
  std::mutex mutex;
  std::map<int, std::string> texts;
  job.on_failure = [&](int rank, const std::string& text) {
    const std::lock_guard lock(mutex);
    texts[rank] = text;
  };
  EXPECT_THROW(toy::train(job), Error);
  ASSERT_EQ(texts.size(), 4U) << "every rank ends";
  EXPECT_EQ(texts[0], "rank 0, step 1, 0WAIT_OFFLOAD2: swap.folder /full: cannot write: No space left on device");
}

TEST(CopyLane, RunsJobsInOrderAndThrowsWhatTheyThrewWhereTheyAreWaitedFor) {
  CopyLane lane;
  std::vector<int> order;
  const CopyLane::Ticket first = lane.start([&] { order.push_back(1); });
  const CopyLane::Ticket second = lane.start([&] { throw_error("broken"); });
  const CopyLane::Ticket third = lane.start([&] { order.push_back(3); });
  const Deadline deadline = Deadline::after_seconds(60);
  lane.wait(third, deadline, "the third");
  EXPECT_EQ(order, (std::vector<int>{1, 3}));
  EXPECT_THROW(lane.wait(second, deadline, "the second"), Error);
  lane.wait(first, deadline, "the first");
}

TEST(CopyLane, GivesUpWhenTheDeadlinePasses) {
  std::atomic<bool> go{false};
  CopyLane lane;
  const CopyLane::Ticket ticket = lane.start([&] {
    while (!go) std::this_thread::yield();
  });
  EXPECT_THROW(lane.wait(ticket, Deadline::after_seconds(0.01), "an offload"), Error);
  go = true;
}

}  // namespace
}  // namespace ppctl
