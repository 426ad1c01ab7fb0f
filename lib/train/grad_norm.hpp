#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "comm/transport.hpp"
#include "shard/group_shard.hpp"

namespace ppctl {

/// Sum of squares in double, in an order that depends on the number of elements alone.
double sum_of_squares(std::span<const float> values);

/// The norm over all gradients of a model whose parts lie on several ranks: the sum of the parameters' squared norms in
/// the order of their names, and of a sharded parameter's in the order of its shards, so that it is the same to the
/// last bit wherever they lie. A shard that several ranks hold (replicas) counts once, and so does a tied weight, whose
/// uses hold the same summed gradient. Frozen ones do not count.
class GradNorm {
 public:
  /// COLLECTIVE over `world`: ranks exchange the names. The shards must outlive the object.
  GradNorm(std::vector<GroupShard*> shards, Group& world, Deadline deadline);

  /// Most parameters of one rank: the length of what each contributes.
  std::size_t num_slots() const { return num_slots_; }
  /// Writes the squared norms of this rank's gradients to the first of num_slots() values.
  void local(std::span<double> slots) const;
  /// The norm, from the slots of all ranks (`stride` values apart). The same on every rank.
  double combine(std::span<const double> slots, std::size_t stride) const;

  /// Multiplies this rank's gradients, as StepScale::factor asks for; 1 leaves them as they are.
  void scale(double factor) const;

 private:
  struct Source {
    std::size_t rank;
    std::size_t slot;
  };

  std::vector<GroupShard*> shards_;
  std::vector<at::Tensor> grads_;  ///< flat, of this rank's slots
  std::vector<Source> order_;      ///< by name, then by shard
  std::size_t num_slots_ = 0;
};

}  // namespace ppctl
