#include "runtime/tied_weights.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.hpp"
#include "comm/inproc.hpp"

namespace ppctl {
namespace {

Deadline soon() { return Deadline::after_seconds(20); }

/// A group with one parameter of three elements, all of them `value`, with gradient `grad`.
std::unique_ptr<ParameterGroup> one(const std::string& name, const std::string& tied_to, float value, float grad,
                                    std::int64_t numel = 3) {
  auto group = std::make_unique<ParameterGroup>(name, at::kFloat);
  Parameter parameter;
  parameter.name = name;
  parameter.tied_to = tied_to;
  parameter.shape = {numel};
  parameter.numel = numel;
  group->add(parameter);
  group->allocate();
  group->data(0).fill_(value);
  group->grad(0).fill_(grad);
  return group;
}

/// Where the uses of one weight are: use i, in the order of the model, on rank ranks[i] as stage i.
void tie_and_check(int num_ranks, const std::vector<int>& ranks, const std::vector<float>& grads, float sum) {
  run_inproc(num_ranks, [&](Communicator& communicator) {
    std::vector<std::unique_ptr<ParameterGroup>> groups;
    std::vector<std::unique_ptr<GroupShard>> shards;
    std::vector<StageShards> stages;
    for (std::size_t use = 0; use < ranks.size(); ++use) {
      if (ranks[use] != communicator.transport().rank()) continue;
      const std::string name = use == 0 ? "embed" : fmt::format("use {}", use);
      groups.push_back(one(name, use == 0 ? "" : "embed", static_cast<float>(use) + 1, grads[use]));
      shards.push_back(std::make_unique<GroupShard>(*groups.back()));
      stages.push_back({StageId(static_cast<int>(use)), {shards.back().get()}});
    }
    std::vector<int> all(static_cast<std::size_t>(num_ranks));
    std::iota(all.begin(), all.end(), 0);
    const auto pipeline = communicator.group(all, "pipeline");
    TiedWeights tied(communicator, *pipeline, stages);
    EXPECT_EQ(tied.empty(), groups.empty());
    tied.equalise_values(soon());
    tied.sum_grads(soon());
    for (const auto& group : groups) {
      EXPECT_TRUE(at::equal(group->data(0), at::full({3}, 1.0F)));
      EXPECT_TRUE(at::equal(group->grad(0), at::full({3}, sum)));
    }
  });
}

TEST(TiedWeights, AreSummedAndEqualisedBetweenFirstAndLastRank) { tie_and_check(4, {0, 3}, {1, 2}, 3); }

TEST(TiedWeights, AreSummedWhereBothUsesAreOnOneRank) {
  tie_and_check(2, {0, 0}, {1, 2}, 3);
  tie_and_check(1, {0, 0}, {1, 2}, 3);
}

TEST(TiedWeights, AreSummedInTheOrderOfTheModelWhereverTheUsesAre) {
  // In float32, (1e8 + 1) - 1e8 = 0, but (1e8 - 1e8) + 1 = 1.
  for (const std::vector<int>& ranks :
       std::vector<std::vector<int>>{{0, 1, 2}, {2, 1, 0}, {0, 1, 0}, {1, 0, 0}, {0, 0, 0}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", ranks[0], ranks[1], ranks[2]));
    tie_and_check(3, ranks, {1e8F, 1.0F, -1e8F}, 0.0F);
    tie_and_check(3, ranks, {1e8F, -1e8F, 1.0F}, 1.0F);
  }
}

TEST(TiedWeights, OfAStageWithTwoCopiesCountOnce) {
  run_inproc(2, [](Communicator& communicator) {
    const bool first = communicator.transport().rank() == 0;
    // Both ranks hold stages 0 and 1; the copies of a gradient are equal already.
    const auto embedding = one("embed", "", 1, 5);
    const auto head = one("head", "embed", 2, 7);
    GroupShard embedding_shard(*embedding);
    GroupShard head_shard(*head);
    std::vector<StageShards> stages = {{StageId(0), {&embedding_shard}}, {StageId(1), {&head_shard}}};
    if (!first) std::swap(stages[0], stages[1]);
    const std::vector<int> all = {0, 1};
    const auto pipeline = communicator.group(all, "pipeline");
    TiedWeights tied(communicator, *pipeline, stages);
    tied.sum_grads(soon());
    EXPECT_TRUE(at::equal(embedding->grad(0), at::full({3}, 12.0F)));
    EXPECT_TRUE(at::equal(head->grad(0), at::full({3}, 12.0F)));
  });
}

std::string error_of(const std::function<std::unique_ptr<ParameterGroup>(int)>& group_of) {
  try {
    run_inproc(2, [&](Communicator& communicator) {
      const int rank = communicator.transport().rank();
      const auto group = group_of(rank);
      GroupShard shard(*group);
      const std::vector<StageShards> stages = {{StageId(rank), {&shard}}};
      const std::vector<int> all = {0, 1};
      const auto pipeline = communicator.group(all, "pipeline");
      TiedWeights tied(communicator, *pipeline, stages);
    });
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(TiedWeights, RefuseANameThatNoStageHas) {
  EXPECT_EQ(error_of([](int rank) { return one(fmt::format("w{}", rank), "embed", 1, 1); }),
            "a parameter is tied to embed, which no stage has");
}

TEST(TiedWeights, RefuseUsesOfDifferentSizes) {
  EXPECT_EQ(error_of([](int rank) { return rank == 0 ? one("embed", "", 1, 1) : one("head", "embed", 1, 1, 4); }),
            "the uses of embed differ: stage 0 has 3 elements of type Float, stage 1 has 4 of type Float");
}

}  // namespace
}  // namespace ppctl
