#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/transport.hpp"
#include "shard/group_shard.hpp"
#include "topology/placement.hpp"

namespace ppctl {

/// Parameters that are used at several places of the pipeline (an embedding that is also the head). Every use has
/// values and a gradient accumulator of its own, also where two uses lie on one rank; after a step the accumulators are
/// summed once, in the order of uses along the model, so that the sum does not depend on the number of ranks.
///
/// A use is a Parameter whose `tied_to` names another, or one that is named so. A stage that two ranks hold (a
/// bidirectional placement) counts as one use: its copies must hold the same gradient (StageReplicas comes first), and
/// all get the sum.
///
/// Works on what this rank owns of the parameters. With FSDP the ranks of a pipeline own the same rows of every use,
/// and gradients are reduced over the shards first.
class TiedWeights {
 public:
  /// COLLECTIVE over `pipeline`, the group of this pipeline's ranks: they exchange names. `name` tells pipelines that
  /// share a communicator apart. The shards must outlive the object. Throws Error where a tie names a
  /// parameter that is nowhere, or one of another size or type.
  TiedWeights(Communicator& communicator, Group& pipeline, std::span<const StageShards> stages,
              const std::string& name = "tied");
  ~TiedWeights();

  bool empty() const { return ties_.empty(); }
  /// Gives every use the master values of the first. COLLECTIVE over the pipeline. Called once, after initialisation.
  void equalise_values(Deadline deadline);
  /// Gives every use the sum of all accumulators. COLLECTIVE over the pipeline. Called once a step, before the norm.
  void sum_grads(Deadline deadline);

 private:
  /// A use on this rank.
  struct Member {
    int use = 0;  ///< index along the model
    at::Tensor data;
    at::Tensor grad;
  };
  /// One parameter and all its uses, as a rank that has one of them sees it.
  struct Tie {
    std::unique_ptr<Group> group;  ///< of the ranks that have a use; null when this is the only one
    std::vector<Member> members;   ///< of this rank, by use
    /// By use: the group rank whose copy is read, and its place among that rank's members.
    std::vector<std::pair<int, int>> sources;
    int slots = 0;  ///< most members of a rank
  };

  /// Every use's values or gradient, by use. COLLECTIVE over the tie's ranks.
  static TensorList gather(Tie& tie, at::Tensor Member::* what, Deadline deadline);

  std::vector<Tie> ties_;
};

}  // namespace ppctl
