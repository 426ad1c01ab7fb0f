#include "shard/fsdp.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "comm/inproc.hpp"
#include "model/flat_storage.hpp"

namespace ppctl {
namespace {

constexpr StageId kStage(0);

/// Two parameters of uneven sizes, one merged with the next, and a vector.
std::unique_ptr<ParameterGroup> make_group(at::ScalarType dtype = at::kFloat, bool trainable = true) {
  auto group = std::make_unique<ParameterGroup>("layer", dtype);
  group->add({.name = "q", .shape = {5, 3}, .trainable = trainable});
  group->add({.name = "k", .shape = {2, 3}, .trainable = trainable}, /*merge_with_previous=*/true);
  group->add({.name = "norm", .shape = {7}, .trainable = trainable});
  group->allocate();
  return group;
}

/// The gradient of one microbatch on one rank: no two are alike, and sums depend on their order.
at::Tensor gradient(const ParameterGroup& group, int rank, int microbatch) {
  const double scale = std::pow(-10.0, (rank + microbatch) % 4);
  return (at::arange(group.numel()) * 0.37 + rank * 1.7 + microbatch * 0.13).mul(scale).to(at::kFloat);
}

/// One rank with one stage of two groups.
struct Rank {
  Rank(Communicator& communicator, FsdpOptions options, at::ScalarType dtype = at::kFloat) {
    groups.push_back(make_group(dtype));
    groups.push_back(make_group(dtype));
    std::vector<int> all(static_cast<std::size_t>(communicator.transport().size()));
    std::iota(all.begin(), all.end(), 0);
    ranks = communicator.group(all, "shards");
    StageShards stage{kStage, {}};
    for (std::size_t i = 0; i < groups.size(); ++i) {
      groups[i]->flat_data().copy_(at::arange(groups[i]->numel()) + static_cast<double>(100 * i));
      shards.push_back(std::make_unique<GroupShard>(*groups[i], ranks->rank(), ranks->size()));
      stage.groups.push_back(shards.back().get());
    }
    fsdp = std::make_unique<Fsdp>(*ranks, std::vector<StageShards>{stage}, options);
  }

  /// What a backward of a microbatch does.
  void add_gradients(int microbatch) {
    fsdp->before_compute(kStage, /*makes_weight_grads=*/true);
    for (const auto& group : groups) group->flat_grad().add_(gradient(*group, ranks->rank(), microbatch));
  }

  std::vector<std::unique_ptr<ParameterGroup>> groups;
  std::unique_ptr<Group> ranks;
  std::vector<std::unique_ptr<GroupShard>> shards;
  std::unique_ptr<Fsdp> fsdp;
};

void expect_rows(const GroupShard& shard, const at::Tensor& flat, const char* what) {
  for (int i = 0; i < static_cast<int>(shard.parameters().size()); ++i) {
    const at::Tensor wanted = shard.group().view(flat, i).narrow(0, shard.rows(i).begin, shard.rows(i).size());
    EXPECT_TRUE(at::equal(shard.grad(i), wanted)) << what << ", rank " << shard.index() << ", parameter " << i;
  }
}

TEST(Fsdp, HasWholeParametersWhileUnshardedAndNoneOtherwise) {
  for (const int size : {2, 3, 4, 8}) {
    run_inproc(size, [](Communicator& communicator) {
      Rank rank(communicator, {});
      for (int round = 0; round < 2; ++round) {
        for (const auto& group : rank.groups) {
          EXPECT_FALSE(has_storage(group->flat_data()));
          EXPECT_FALSE(has_storage(group->flat_grad()));
        }
        const at::Tensor q = rank.groups[1]->data(0);  // a view from before
        rank.fsdp->unshard(kStage);
        rank.fsdp->before_compute(kStage, /*makes_weight_grads=*/false);
        EXPECT_TRUE(at::equal(q, (at::arange(15, at::kFloat) + 100).view({5, 3})));
        EXPECT_TRUE(at::equal(rank.groups[0]->data(2), at::arange(7, at::kFloat) + 32));
        rank.fsdp->reshard(kStage);
      }
      EXPECT_EQ(rank.fsdp->stats(kStage).all_gathers, 4);
    });
  }
}

TEST(Fsdp, ReducesOnceAStepInRankOrder) {
  run_inproc(3, [](Communicator& communicator) {
    Rank rank(communicator, {});
    rank.fsdp->unshard(kStage);
    for (int batch = 0; batch < 2; ++batch) {
      rank.fsdp->begin_batch(/*is_last=*/batch == 1);
      for (int microbatch = 0; microbatch < 2; ++microbatch) rank.add_gradients(2 * batch + microbatch);
      rank.fsdp->reduce_grad(kStage);
    }
    rank.fsdp->reshard(kStage);
    EXPECT_EQ(rank.fsdp->stats(kStage).reduce_scatters, 2) << "one for each of two groups";
    at::Tensor sum;
    for (int other = 0; other < 3; ++other) {
      at::Tensor local = at::zeros({rank.groups[0]->numel()});
      for (int microbatch = 0; microbatch < 4; ++microbatch) {
        local.add_(gradient(*rank.groups[0], other, microbatch));
      }
      sum = sum.defined() ? sum + local : local;
    }
    for (const auto& shard : rank.shards) expect_rows(*shard, sum, "a step");
    EXPECT_FALSE(has_storage(rank.groups[0]->flat_grad()));
  });
}

TEST(Fsdp, ReducesEveryMicrobatchAndAccumulatesShards) {
  run_inproc(2, [](Communicator& communicator) {
    FsdpOptions options;
    options.reduce_every_microbatch = true;
    Rank rank(communicator, options);
    rank.fsdp->unshard(kStage);
    rank.fsdp->begin_batch(/*is_last=*/false);
    at::Tensor sum;
    for (int microbatch = 0; microbatch < 3; ++microbatch) {
      rank.add_gradients(microbatch);
      rank.fsdp->reduce_grad(kStage);
      EXPECT_FALSE(has_storage(rank.groups[0]->flat_grad())) << "whole gradients are kept";
      const at::Tensor both = gradient(*rank.groups[0], 0, microbatch) + gradient(*rank.groups[0], 1, microbatch);
      sum = sum.defined() ? sum + both : both;
    }
    rank.fsdp->reshard(kStage);
    for (const auto& shard : rank.shards) expect_rows(*shard, sum, "microbatches");
    EXPECT_EQ(rank.fsdp->stats(kStage).reduce_scatters, 6);
  });
}

TEST(Fsdp, ComputesInBFloat16WithMastersAndGradientsInFloat32) {
  for (const at::ScalarType reduce : {at::kFloat, at::kBFloat16}) {
    run_inproc(2, [reduce](Communicator& communicator) {
      FsdpOptions options;
      options.reduce_dtype = reduce;
      Rank rank(communicator, options, at::kBFloat16);
      rank.shards[0]->fill([](const at::Tensor& flat) { flat.copy_(at::arange(flat.numel()) * 1.001); });
      const at::Tensor exact = (at::arange(rank.groups[0]->numel()) * 1.001).to(at::kFloat);
      EXPECT_TRUE(at::equal(rank.fsdp->gather_master(*rank.shards[0]).narrow(0, 0, 21), exact.narrow(0, 0, 21)));
      rank.fsdp->unshard(kStage);
      rank.add_gradients(0);
      EXPECT_TRUE(at::equal(rank.groups[0]->data(0).view(-1), exact.narrow(0, 0, 15).to(at::kBFloat16)));
      EXPECT_EQ(rank.groups[0]->flat_grad().scalar_type(), at::kFloat);
      rank.fsdp->reduce_grad(kStage);
      rank.fsdp->reshard(kStage);
      at::Tensor sum = gradient(*rank.groups[0], 0, 0) + gradient(*rank.groups[0], 1, 0);
      if (reduce == at::kBFloat16) {
        const auto rounded = [&](int other) { return gradient(*rank.groups[0], other, 0).to(reduce).to(at::kFloat); };
        sum = (rounded(0) + rounded(1)).to(reduce).to(at::kFloat);
      }
      for (const auto& shard : rank.shards) expect_rows(*shard, sum, "bfloat16");
    });
  }
}

TEST(Fsdp, LeavesFrozenGroupsAlone) {
  run_inproc(2, [](Communicator& communicator) {
    const std::vector<int> all{0, 1};
    const auto ranks = communicator.group(all, "shards");
    const auto group = make_group(at::kFloat, /*trainable=*/false);
    GroupShard shard(*group, ranks->rank(), ranks->size());
    Fsdp fsdp(*ranks, {{kStage, {&shard}}}, {});
    fsdp.unshard(kStage);
    fsdp.before_compute(kStage, /*makes_weight_grads=*/true);
    EXPECT_FALSE(has_storage(group->flat_grad()));
    fsdp.reduce_grad(kStage);
    fsdp.reshard(kStage);
    EXPECT_EQ(fsdp.stats(kStage).reduce_scatters, 0);
  });
}

TEST(Fsdp, RefusesToComputeWithShards) {
  EXPECT_THROW(run_inproc(2,
                          [](Communicator& communicator) {
                            Rank rank(communicator, {});
                            rank.fsdp->before_compute(kStage, false);
                          }),
               Bug);
}

}  // namespace
}  // namespace ppctl
