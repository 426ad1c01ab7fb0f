#include "train/state_tensors.hpp"

#include <gtest/gtest.h>

namespace ppctl {
namespace {

/// Two matrices, of which the second is another use of the first, and a frozen vector.
std::unique_ptr<ParameterGroup> some_group() {
  auto group = std::make_unique<ParameterGroup>("group", at::kFloat);
  group->add({.name = "embed.weight", .shape = {3, 4}});
  group->add({.name = "head.weight", .shape = {3, 4}, .tied_to = "embed.weight"});
  group->add({.name = "scale", .shape = {5}, .trainable = false});
  group->allocate();
  return group;
}

TEST(StateTensors, NamesValuesAndMomentsOfWhatIsTrained) {
  const auto group = some_group();
  GroupShard shard(*group);
  AdamW optimizer(OptimizerConfig{}, {&shard});
  std::vector<std::string> names;
  for (const StateTensor& tensor : state_tensors(optimizer)) names.push_back(tensor.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"embed.weight", "optimizer.exp_avg.embed.weight",
                                      "optimizer.exp_avg_sq.embed.weight", "embed.weight",
                                      "optimizer.exp_avg.embed.weight", "optimizer.exp_avg_sq.embed.weight", "scale"}));
}

TEST(StateTensors, AreViewsOfWholeTensorsWhereNothingIsSharded) {
  const auto group = some_group();
  GroupShard shard(*group);
  AdamW optimizer(OptimizerConfig{}, {&shard});
  for (StateTensor& tensor : state_tensors(optimizer)) {
    EXPECT_EQ(tensor.row_begin, 0);
    EXPECT_EQ(tensor.row_end, tensor.shape.front());
    EXPECT_EQ(tensor.local.sizes().vec(), tensor.shape);
    EXPECT_TRUE(tensor.local.is_contiguous());
    tensor.local.fill_(7.0);
  }
  EXPECT_TRUE(group->data(1).eq(7.0).all().item<bool>());
  EXPECT_TRUE(optimizer.states().front().exp_avg_sq.eq(7.0).all().item<bool>());
}

TEST(StateTensors, AreTheRowsThatARankOwns) {
  for (const int index : {0, 1}) {
    const auto group = some_group();
    group->data(0).copy_(at::arange(12).view({3, 4}));
    GroupShard shard(*group, index, 2);
    AdamW optimizer(OptimizerConfig{}, {&shard});
    const std::vector<StateTensor> tensors = state_tensors(optimizer);
    EXPECT_EQ(tensors[0].shape, (std::vector<std::int64_t>{3, 4}));
    EXPECT_EQ(tensors[0].row_begin, index == 0 ? 0 : 2);
    EXPECT_EQ(tensors[0].row_end, index == 0 ? 2 : 3);
    EXPECT_TRUE(at::equal(tensors[0].local, at::arange(12, at::kFloat).view({3, 4}).narrow(0, 2 * index, 2 - index)));
    EXPECT_EQ(tensors[1].local.sizes(), tensors[0].local.sizes());
  }
}

}  // namespace
}  // namespace ppctl
