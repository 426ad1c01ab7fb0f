#include "train/batches.hpp"

#include <gtest/gtest.h>

#include <set>

namespace ppctl {
namespace {

/// Sample i is the token i, twice; its second label does not count where i is odd.
class NumberedSamples final : public SampleSource {
 public:
  explicit NumberedSamples(std::int64_t count) : count_(count) {}
  std::int64_t num_samples() const override { return count_; }
  std::int64_t sequence_length() const override { return 2; }
  void read(std::int64_t index, std::span<std::int64_t> ids, std::span<std::int64_t> labels) const override {
    ids[0] = ids[1] = index;
    labels[0] = index;
    labels[1] = index % 2 == 1 ? kIgnoredLabel : index;
  }
  std::int64_t num_labels(std::int64_t index) const override { return index % 2 == 1 ? 1 : 2; }

 private:
  std::int64_t count_;
};

BatchLoader loader(BatchShape shape, int replica, std::int64_t samples = 1000, bool shuffled = false) {
  return {std::make_shared<NumberedSamples>(samples), SampleOrder(samples, shuffled, 5), shape, replica, {true, true}};
}

std::vector<std::int64_t> samples_of(const Microbatch& microbatch) {
  std::vector<std::int64_t> samples;
  const at::Tensor& ids = microbatch.args.at(0);
  for (std::int64_t row = 0; row < ids.size(0); ++row) samples.push_back(ids[row][0].item<std::int64_t>());
  return samples;
}

TEST(Batches, GiveReplicasContiguousBlocksOfGlobalMicrobatches) {
  const BatchShape shape{2, 3, 2, 1};
  const auto second = loader(shape, 1).load(/*step=*/1, 0, true, 0.5);
  ASSERT_EQ(second.size(), 3u);
  EXPECT_EQ(second[0].index, 0);
  EXPECT_EQ(second[0].global_index, 3);
  EXPECT_EQ(second[0].first_sample, 12 + 6);
  EXPECT_EQ(samples_of(second[0]), (std::vector<std::int64_t>{18, 19}));
  EXPECT_EQ(samples_of(second[2]), (std::vector<std::int64_t>{22, 23}));
  EXPECT_EQ(second[0].loss_scale, 0.5);
}

TEST(Batches, CoverTheSamplesOfAStepWhateverTheNumberOfReplicas) {
  for (const int replicas : {1, 2, 4}) {
    std::vector<std::int64_t> seen;
    for (int replica = 0; replica < replicas; ++replica) {
      for (const Microbatch& microbatch : loader({replicas, 8 / replicas, 2, 1}, replica).load(3, 0, true, 1.0)) {
        for (const std::int64_t sample : samples_of(microbatch)) seen.push_back(sample);
      }
    }
    std::vector<std::int64_t> expected;
    for (std::int64_t sample = 48; sample < 64; ++sample) expected.push_back(sample);
    EXPECT_EQ(seen, expected);
  }
}

TEST(Batches, OfAnAccumulatedStepFollowEachOther) {
  const auto batches = loader({1, 2, 1, 2}, 0);
  EXPECT_EQ(samples_of(batches.load(1, 1, true, 1.0)[0]), (std::vector<std::int64_t>{6}));
  EXPECT_EQ(batches.load(1, 1, true, 1.0)[0].global_index, 2);
}

TEST(Batches, CountTheLabelsOfAWholeStepOnEveryReplica) {
  const BatchShape shape{2, 2, 1, 1};
  EXPECT_EQ(loader(shape, 0).num_labels(0), 2 + 1 + 2 + 1);
  EXPECT_EQ(loader(shape, 1).num_labels(0), 2 + 1 + 2 + 1);
}

TEST(Batches, StartANewEpochAtTheEndOfTheData) {
  const auto batches = loader({1, 3, 2, 1}, 0, /*samples=*/8);
  const auto second = batches.load(1, 0, true, 1.0);
  EXPECT_EQ(samples_of(second[0]), (std::vector<std::int64_t>{6, 7}));
  EXPECT_EQ(samples_of(second[1]), (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(batches.order().epoch_of(7), 0);
  EXPECT_EQ(batches.order().epoch_of(8), 1);
}

TEST(Batches, ShuffledSeeEverySampleOnceAnEpochAndEachEpochAnew) {
  const SampleOrder order(100, true, 5);
  std::vector<std::int64_t> first;
  std::vector<std::int64_t> second;
  for (std::int64_t i = 0; i < 100; ++i) {
    first.push_back(order.index_of(i));
    second.push_back(order.index_of(100 + i));
  }
  EXPECT_EQ(std::set<std::int64_t>(first.begin(), first.end()).size(), 100u);
  EXPECT_EQ(std::set<std::int64_t>(second.begin(), second.end()).size(), 100u);
  EXPECT_NE(first, second);
}

TEST(Batches, ReadOnlyWhatTheRankNeeds) {
  const BatchLoader middle(std::make_shared<NumberedSamples>(10), SampleOrder(10, false, 0), {1, 1, 1, 1}, 0, {});
  const auto microbatches = middle.load(0, 0, true, 1.0);
  EXPECT_TRUE(microbatches[0].args.empty());
  EXPECT_TRUE(microbatches[0].kwargs.empty());
}

}  // namespace
}  // namespace ppctl
