#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "comm/transport.hpp"
#include "shard/group_shard.hpp"
#include "shard/shard_hooks.hpp"

namespace ppctl {

struct FsdpOptions {
  /// false: gradients accumulate whole over the microbatches of a step and are reduced once; true: they are reduced
  /// after every microbatch and accumulate as shards, which takes less memory and more communication.
  bool reduce_every_microbatch = false;
  at::ScalarType reduce_dtype = at::kFloat;  ///< in which gradients travel; they are summed in float32
  double timeout_s = 300;                    ///< of each wait for another rank
};

/// What FSDP did for one stage so far.
struct FsdpStats {
  std::int64_t all_gathers = 0;      ///< of a group's parameters
  std::int64_t reduce_scatters = 0;  ///< of a group's gradients
  Nanoseconds wait = 0;              ///< in waits for other ranks
};

/// Fully sharded data parallelism of the stages of one rank, with the semantics of PyTorch's FSDP2: between uses each
/// rank holds its rows of every parameter alone (GroupShard). One all-gather a group brings the whole parameters into
/// the group's flat buffer, of which the layers' weights are views; one reduce-scatter a group sums the gradients and
/// leaves each rank those of its rows. Sums are made in rank order, so they are reproducible to the bit.
///
/// When that happens is the schedule's affair: its steps UNSHARD, RESHARD and REDUCE_GRAD come here as ShardHooks.
/// An all-gather is started at once and waited for before the stage's next compute, so it runs beside what is computed
/// in between. All-gathers copy from the owners' memory into place, and gradients from place to the owners, without a
/// buffer in between other than the transport's; the messages of a reduction that wait to be summed belong to two
/// groups at most.
///
/// All methods but stats() are COLLECTIVE over the ranks that share the parameters, which run the same schedule. One
/// thread.
class Fsdp final : public ShardHooks {
 public:
  /// `ranks`: those that share the parameters, in the order of the shards; `expert_ranks` those that share a group of
  /// experts, which may be this one alone: then it is whole and left alone. They, the stages' shards and groups must
  /// outlive the object.
  Fsdp(Group& ranks, Group& expert_ranks, std::vector<StageShards> stages, FsdpOptions options);
  /// Without experts, or with those of all ranks.
  Fsdp(Group& ranks, std::vector<StageShards> stages, FsdpOptions options)
      : Fsdp(ranks, ranks, std::move(stages), options) {}
  ~Fsdp() override;

  /// Says whether the batch that comes is the last one of the optimizer's step: gradients that accumulate whole are
  /// reduced in that one alone.
  void begin_batch(bool is_last) { last_batch_ = is_last; }

  void unshard(StageId stage) override;
  void reshard(StageId stage) override;
  void before_compute(StageId stage, bool makes_weight_grads) override;
  void reduce_grad(StageId stage) override;

  /// For what runs outside of a schedule: all stages' parameters come here, and go.
  void unshard_all();
  void reshard_all();
  /// The master values of a whole group, with the layout of its flat buffers.
  at::Tensor gather_master(const GroupShard& shard);

  const FsdpStats& stats(StageId stage) const { return stages_.at(stage.value).stats; }

 private:
  struct Stage {
    std::vector<GroupShard*> groups;
    std::vector<RequestPtr> gathers;  ///< under way; empty once waited for
    bool unsharded = false;
    FsdpStats stats;
  };
  /// A reduce-scatter under way.
  struct Reduction {
    GroupShard* shard = nullptr;
    at::Tensor sent;      ///< the whole gradient, in reduce_dtype
    at::Tensor received;  ///< [ranks, elements of the shard]; this rank's own row is not used
    RequestPtr request;
  };

  void finish_gathers(Stage& stage);
  Group& ranks_of(const GroupShard& shard) const;
  RequestPtr start_gather(const GroupShard& shard, const at::Tensor& flat);
  Reduction start_reduction(GroupShard& shard);
  void finish_reduction(Reduction& reduction, Stage& stage);
  void wait(Request& request, Stage& stage, std::string_view what) const;
  Stage& at(StageId stage) { return stages_.at(stage.value); }

  Group& ranks_;
  Group& expert_ranks_;
  FsdpOptions options_;
  std::map<int, Stage> stages_;
  bool last_batch_ = true;
};

}  // namespace ppctl
