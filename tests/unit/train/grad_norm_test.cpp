#include "train/grad_norm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "comm/inproc.hpp"

namespace ppctl {
namespace {

Deadline soon() { return Deadline::after_seconds(30); }

/// A group of one parameter whose gradient is `value` everywhere.
std::unique_ptr<ParameterGroup> group_of(const std::string& name, std::int64_t size, float value, bool trainable = true,
                                         const std::string& tied_to = "") {
  auto group = std::make_unique<ParameterGroup>(name, at::kFloat);
  Parameter parameter;
  parameter.name = name;
  parameter.shape = {size};
  parameter.trainable = trainable;
  parameter.tied_to = tied_to;
  group->add(parameter);
  group->allocate();
  group->grad(0).fill_(value);
  return group;
}

using Groups = std::vector<std::unique_ptr<ParameterGroup>>;

/// The norm of a model whose rank r has the groups make(r).
double norm_of(int ranks, const std::function<Groups(int)>& make) {
  double result = 0.0;
  run_inproc(ranks, [&](Communicator& communicator) {
    std::vector<int> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(rank);
    const auto world = communicator.group(all, "world");
    const Groups groups = make(world->rank());
    std::vector<std::unique_ptr<GroupShard>> shards;
    std::vector<GroupShard*> pointers;
    for (const auto& group : groups) {
      shards.push_back(std::make_unique<GroupShard>(*group));
      pointers.push_back(shards.back().get());
    }
    const GradNorm norm(pointers, *world, soon());
    std::vector<double> mine(norm.num_slots(), 0.0);
    norm.local(mine);
    std::vector<double> everyone(mine.size() * static_cast<std::size_t>(ranks));
    const auto in = std::as_bytes(std::span(mine));
    const auto out = std::as_writable_bytes(std::span(everyone));
    world->all_gather({in.data(), in.size()}, {out.data(), out.size()})->wait(soon(), "norms");
    const double combined = norm.combine(everyone, mine.size());
    if (world->rank() == 0) result = combined;
  });
  return result;
}

TEST(SumOfSquares, IsExactForSmallIntegersOfAnyCount) {
  for (const std::size_t count : {0u, 1u, 15u, 16u, 17u, 100u, 1000u}) {
    const std::vector<float> values(count, 3.0F);
    EXPECT_EQ(sum_of_squares(values), 9.0 * static_cast<double>(count));
  }
}

TEST(SumOfSquares, KeepsSmallElementsBesideLargeOnes) {
  std::vector<float> values(1001, 1e-4F);
  values[500] = 1e4F;
  EXPECT_NEAR(sum_of_squares(values) - 1e8, 1000 * 1e-8, 1e-6);
}

TEST(GradNorm, IsTheSameToTheLastBitHoweverParametersLieOnRanks) {
  const auto make = [](int ranks) {
    return [ranks](int rank) {
      Groups groups;
      for (int layer = 0; layer < 12; ++layer) {
        if (layer * ranks / 12 != rank) continue;
        groups.push_back(
            group_of("layer " + std::to_string(layer), 1000 + layer, 0.1F / static_cast<float>(layer + 1)));
      }
      return groups;
    };
  };
  const double alone = norm_of(1, make(1));
  EXPECT_GT(alone, 0.0);
  for (const int ranks : {2, 3, 4, 6}) EXPECT_EQ(norm_of(ranks, make(ranks)), alone);
}

TEST(GradNorm, CountsReplicasTiedAndFrozenParametersAsItShould) {
  const double norm = norm_of(2, [](int rank) {
    Groups groups;
    groups.push_back(group_of("shared by both ranks", 4, 2.0F));
    if (rank == 0) groups.push_back(group_of("embedding", 9, 1.0F));
    if (rank == 1) groups.push_back(group_of("head", 9, 1.0F, true, "embedding"));
    if (rank == 1) groups.push_back(group_of("frozen", 5, 100.0F, false));
    return groups;
  });
  EXPECT_EQ(norm, 5.0);
}

TEST(GradNorm, ScalesGradients) {
  run_inproc(1, [](Communicator& communicator) {
    const auto world = communicator.group(std::vector<int>{0}, "world");
    const auto group = group_of("w", 4, 2.0F);
    GroupShard shard(*group);
    const GradNorm norm({&shard}, *world, soon());
    norm.scale(1.0);
    EXPECT_EQ(group->grad(0)[0].item<float>(), 2.0F);
    norm.scale(0.25);
    EXPECT_EQ(group->grad(0)[0].item<float>(), 0.5F);
  });
}

}  // namespace
}  // namespace ppctl
