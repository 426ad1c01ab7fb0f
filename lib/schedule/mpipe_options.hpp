#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "schedule/generator.hpp"

namespace ppctl {

/// MPipe transpose: what a model does before its stages (loading and decoding data, and the encoder where that is
/// transposed too) runs on rank j mod min(pp, m) for microbatch j.
struct MpipeOptions {
  bool enabled = false;
  bool encodes = true;           ///< false: only data is loaded elsewhere (T = 0)
  bool trains = true;            ///< the encoder has a backward, for which feature gradients return to its owners
  bool just_in_time = false;     ///< false: all encoder work before and after the body, as the reference places it
  bool splits_backward = false;  ///< just in time: dx and dw of the encoder are placed apart
  int consumer = 0;              ///< the stage that takes the features

  // What placement just in time goes by, in one unit; of one microbatch.
  double load = 0.0;
  double forward = 1.0;
  double dx = 1.0;  ///< of a backward: with the forward that it repeats, where that is recomputed
  double dw = 1.0;
  double p2p = 0.0;                ///< added to each dependency that crosses ranks
  std::vector<ChunkCosts> stages;  ///< one a stage; empty: 1 for each part of each
  /// Tasks that the search for a placement may place, over all its orders: about a tenth of a second for two million.
  std::int64_t max_placements = 2'000'000;
};

/// The rank that loads and encodes a microbatch.
inline int mpipe_owner(int microbatch, int pp, int num_microbatches) {
  return microbatch % std::min(pp, num_microbatches);
}

}  // namespace ppctl
