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
  AdamW optimizer(OptimizerConfig{}, {group.get()});
  std::vector<std::string> names;
  for (const StateTensor& tensor : state_tensors(optimizer)) names.push_back(tensor.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"embed.weight", "optimizer.exp_avg.embed.weight",
                                      "optimizer.exp_avg_sq.embed.weight", "embed.weight",
                                      "optimizer.exp_avg.embed.weight", "optimizer.exp_avg_sq.embed.weight", "scale"}));
}

TEST(StateTensors, AreViewsOfWholeTensorsWhereNothingIsSharded) {
  const auto group = some_group();
  AdamW optimizer(OptimizerConfig{}, {group.get()});
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

}  // namespace
}  // namespace ppctl
