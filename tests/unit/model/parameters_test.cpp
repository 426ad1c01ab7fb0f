#include "model/parameters.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "model/weight_grad_queue.hpp"

namespace ppctl {
namespace {

Parameter matrix(const std::string& name, std::int64_t rows, std::int64_t columns) {
  Parameter parameter;
  parameter.name = name;
  parameter.shape = {rows, columns};
  return parameter;
}

TEST(ParameterGroup, AlignsParametersTo64BytesAndMergedOnesNotAtAll) {
  ParameterGroup group("layer", at::kFloat);
  group.add(matrix("a", 1, 3));
  group.add(matrix("q", 2, 3));
  group.add(matrix("k", 1, 3), true);
  Parameter bias;
  bias.name = "bias";
  bias.shape = {5};
  group.add(bias);
  EXPECT_EQ(group.parameters()[1].offset, 16);
  EXPECT_EQ(group.parameters()[2].offset, 22);
  EXPECT_EQ(group.parameters()[3].offset, 32);
  EXPECT_EQ(group.numel(), 48);
  EXPECT_TRUE(group.parameters()[0].matrix);
  EXPECT_FALSE(group.parameters()[3].matrix);
}

TEST(ParameterGroup, GivesViewsThatFollowTheFlatBuffers) {
  ParameterGroup group("layer", at::kDouble);
  group.add(matrix("q", 2, 3));
  group.add(matrix("k", 1, 3), true);
  group.allocate();
  group.flat_data().copy_(at::arange(group.numel()));
  EXPECT_EQ(group.data(1)[0][2].item<double>(), 8.0);
  EXPECT_EQ(group.merged_data(0, 2).sizes(), at::IntArrayRef({3, 3}));
  group.merged_grad(0, 2).fill_(1);
  EXPECT_EQ(group.grad(0).sum().item<double>(), 6.0);
  group.zero_grad();
  EXPECT_EQ(group.flat_grad().abs().sum().item<double>(), 0.0);
}

TEST(ParameterGroup, RefusesToMergeWhatDoesNotFit) {
  ParameterGroup group("layer", at::kFloat);
  group.add(matrix("q", 2, 3));
  EXPECT_THROW(group.add(matrix("k", 2, 4), true), Bug);
  group.add(matrix("far", 2, 3));
  group.allocate();
  EXPECT_THROW(group.merged_data(0, 2), Bug);
  EXPECT_THROW(group.add(matrix("late", 1, 1)), Bug);
}

TEST(WeightGradQueue, RunsWorkAtOnceUnlessItIsDeferred) {
  WeightGradQueue queue;
  std::vector<int> order;
  queue.begin_microbatch(0, false);
  queue.add([&] { order.push_back(0); });
  EXPECT_EQ(order, std::vector<int>({0}));
  queue.end_microbatch();
  EXPECT_TRUE(queue.empty());
}

TEST(WeightGradQueue, DrainsOneMicrobatchInTheOrderOfItsWork) {
  WeightGradQueue queue;
  std::vector<int> order;
  for (int microbatch : {0, 1}) {
    queue.begin_microbatch(microbatch, true);
    for (int i : {1, 2}) queue.add([&order, microbatch, i] { order.push_back(10 * microbatch + i); });
    queue.end_microbatch();
  }
  EXPECT_EQ(queue.size(), 2U);
  queue.drain(1);
  queue.drain(0);
  EXPECT_EQ(order, std::vector<int>({11, 12, 1, 2}));
  EXPECT_TRUE(queue.empty());
}

TEST(WeightGradQueue, NamesTheMicrobatchThatHasNothingQueued) {
  WeightGradQueue queue;
  try {
    queue.drain(3);
    FAIL() << "drained nothing";
  } catch (const Bug& bug) {
    EXPECT_NE(std::string(bug.what()).find("no weight gradients are queued for microbatch 3"), std::string::npos);
  }
  EXPECT_THROW(queue.add([] {}), Bug);
}

TEST(WeightGradQueue, ReleasesWhatTheWorkHoldsOnceItRan) {
  WeightGradQueue queue;
  auto held = std::make_shared<int>(1);
  queue.begin_microbatch(0, true);
  queue.add([held] {});
  queue.add([&held] { EXPECT_EQ(held.use_count(), 1); });
  queue.end_microbatch();
  EXPECT_EQ(held.use_count(), 2);
  queue.drain(0);
}

}  // namespace
}  // namespace ppctl
