#pragma once

#include <string_view>
#include <vector>

#include "base/ids.hpp"

namespace ppctl {

/// How stages lie on the ranks of the pp axis.
enum class PlacementKind {
  kLoop,  ///< stage s on rank s mod p; chunk c of rank r is stage c·p + r (interleaved; with one chunk the plain
          ///< pipeline)
  kV,     ///< two chunks: rank r holds stages r and 2p − 1 − r, so the first and the last stage share rank 0
  kBidirectional,  ///< p stages, each twice: rank r holds stage r for the first half of the microbatches and stage p −
                   ///< 1 − r for the second half, which flows the other way (DualPipe)
};

std::string_view to_string(PlacementKind kind);

/// Where each stage of a pipeline lives. A small value type; no torch, no MPI.
class Placement {
 public:
  Placement() = default;
  /// REQUIRES: pp >= 1, chunks >= 1; chunks == 2 for kV and kBidirectional; pp even for kBidirectional.
  Placement(PlacementKind kind, int pp, int chunks);

  PlacementKind kind() const { return kind_; }
  int pp() const { return pp_; }
  /// Stages (chunks of the model) that a rank holds.
  int chunks() const { return chunks_; }
  /// Stages of the model: pp · chunks, except for kBidirectional, where it is pp.
  int num_stages() const { return kind_ == PlacementKind::kBidirectional ? pp_ : pp_ * chunks_; }

  /// The rank that computes `microbatch` of `num_microbatches` at `stage`. Only kBidirectional looks at the microbatch.
  PipelineRank rank_of(StageId stage, MicrobatchId microbatch, int num_microbatches) const;
  /// The stages of a rank, by chunk.
  std::vector<StageId> stages_of(PipelineRank rank) const;
  /// The stage of a rank's chunk. REQUIRES: 0 <= chunk < chunks().
  StageId stage_of(PipelineRank rank, int chunk) const;
  /// The chunk that `stage` is on `rank`, or -1 if the rank does not hold it.
  int chunk_of(PipelineRank rank, StageId stage) const;

  friend bool operator==(const Placement&, const Placement&) = default;

 private:
  PlacementKind kind_ = PlacementKind::kLoop;
  int pp_ = 1;
  int chunks_ = 1;
};

}  // namespace ppctl
