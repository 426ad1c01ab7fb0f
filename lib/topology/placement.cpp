#include "topology/placement.hpp"

#include "base/error.hpp"

namespace ppctl {

std::string_view to_string(PlacementKind kind) {
  switch (kind) {
    case PlacementKind::kLoop:
      return "loop";
    case PlacementKind::kV:
      return "V";
    case PlacementKind::kBidirectional:
      return "bidirectional";
  }
  return "?";
}

Placement::Placement(PlacementKind kind, int pp, int chunks) : kind_(kind), pp_(pp), chunks_(chunks) {
  PPCTL_CHECK(pp >= 1 && chunks >= 1, "pp = {}, chunks = {}", pp, chunks);
  PPCTL_CHECK(kind == PlacementKind::kLoop || chunks == 2, "placement {} has 2 chunks, not {}", to_string(kind),
              chunks);
  PPCTL_CHECK(kind != PlacementKind::kBidirectional || pp % 2 == 0, "bidirectional placement with pp = {}", pp);
}

PipelineRank Placement::rank_of(StageId stage, MicrobatchId microbatch, int num_microbatches) const {
  switch (kind_) {
    case PlacementKind::kLoop:
      return PipelineRank(stage.value % pp_);
    case PlacementKind::kV:
      return PipelineRank(stage.value < pp_ ? stage.value : 2 * pp_ - 1 - stage.value);
    case PlacementKind::kBidirectional:
      return PipelineRank(microbatch.value < num_microbatches / 2 ? stage.value : pp_ - 1 - stage.value);
  }
  return PipelineRank();
}

StageId Placement::stage_of(PipelineRank rank, int chunk) const {
  switch (kind_) {
    case PlacementKind::kLoop:
      return StageId(chunk * pp_ + rank.value);
    case PlacementKind::kV:
      return StageId(chunk == 0 ? rank.value : 2 * pp_ - 1 - rank.value);
    case PlacementKind::kBidirectional:
      return StageId(chunk == 0 ? rank.value : pp_ - 1 - rank.value);
  }
  return StageId();
}

std::vector<StageId> Placement::stages_of(PipelineRank rank) const {
  std::vector<StageId> stages;
  for (int chunk = 0; chunk < chunks_; ++chunk) stages.push_back(stage_of(rank, chunk));
  return stages;
}

int Placement::chunk_of(PipelineRank rank, StageId stage) const {
  for (int chunk = 0; chunk < chunks_; ++chunk) {
    if (stage_of(rank, chunk) == stage) return chunk;
  }
  return -1;
}

}  // namespace ppctl
