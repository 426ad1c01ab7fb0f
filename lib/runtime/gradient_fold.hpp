#pragma once

#include <map>
#include <vector>

#include "base/clock.hpp"
#include "comm/transport.hpp"
#include "model/tensors.hpp"

namespace ppctl {

/// Sums the gradients of parameters that every rank of a pipeline holds and of which each rank made those of its own
/// microbatches: in the order of the microbatches, so that the sum has the bits of a rank that made them all. Each rank
/// folds one part of every buffer, for which it gets the parts of all microbatches; then the parts are gathered. Costs
/// a copy of the gradients for each of a rank's own microbatches until then, and while a buffer is folded two more.
class GradientFold {
 public:
  /// `ranks`: those of the pipeline, by pipeline rank. `gradients`: flat buffers in which microbatches leave them;
  /// those that `are_shards` have memory from a microbatch's reduction to keep() alone, and again from finish() on.
  GradientFold(Group& ranks, std::vector<at::Tensor> gradients, int num_microbatches, bool are_shards = false);

  /// Begins the sum with what the buffers hold, which is the same on all ranks, and clears them. REQUIRES: nothing was
  /// folded since finish(); their memory is there.
  void resume();
  /// Takes what a microbatch of this rank has left in the buffers, and clears them. REQUIRES: their memory is there.
  void keep(int microbatch);
  /// Adds the microbatches of a batch to the sum. COLLECTIVE over the ranks.
  void fold(Deadline deadline);
  /// Writes the sum of all batches since the last call to the buffers. COLLECTIVE over the ranks.
  void finish(Deadline deadline);

 private:
  std::int64_t part_size(std::size_t buffer) const;
  int owner(int microbatch) const;
  int count_of(int rank) const;
  at::Tensor padded(std::size_t buffer, const at::Tensor& gradients) const;
  at::Tensor receive_parts(std::size_t buffer, Deadline deadline);
  void clear(const at::Tensor& gradients) const;

  Group& ranks_;
  std::vector<at::Tensor> gradients_;
  int num_microbatches_;
  bool are_shards_;
  std::map<int, std::vector<at::Tensor>> kept_;  ///< by own microbatch, then by buffer
  std::vector<at::Tensor> sums_;                 ///< by buffer: this rank's part; undefined: zero
};

}  // namespace ppctl
