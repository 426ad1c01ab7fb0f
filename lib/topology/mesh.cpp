#include "topology/mesh.hpp"

#include <cstdint>

#include "base/error.hpp"

namespace ppctl {

std::string_view to_string(MeshAxis axis) {
  switch (axis) {
    case MeshAxis::kPipeline:
      return "pp";
    case MeshAxis::kDpReplicate:
      return "dp_replicate";
    case MeshAxis::kDpShard:
      return "dp_shard";
    case MeshAxis::kDp:
      return "dp";
    case MeshAxis::kExpert:
      return "ep";
    case MeshAxis::kExpertData:
      return "ep_data";
    case MeshAxis::kExpertShard:
      return "ep_shard";
    case MeshAxis::kExpertReplicate:
      return "ep_replicate";
  }
  return "?";
}

Mesh::Mesh(int pp, int dp_replicate, int dp_shard, int ep)
    : pp_(pp), dp_replicate_(dp_replicate), dp_shard_(dp_shard), ep_(ep) {
  PPCTL_CHECK(pp >= 1 && dp_replicate >= 1 && dp_shard >= 1 && ep >= 1, "a mesh of {} x {} x {}, ep {}", pp,
              dp_replicate, dp_shard, ep);
  PPCTL_CHECK(experts_fit(dp_replicate, dp_shard, ep), "ep {} in dp_replicate {} x dp_shard {}", ep, dp_replicate,
              dp_shard);
}

bool Mesh::experts_fit(int dp_replicate, int dp_shard, int ep) {
  const std::int64_t dp = std::int64_t{dp_replicate} * dp_shard;
  return dp % ep == 0 && (dp_shard % ep == 0 || ep % dp_shard == 0);
}

int Mesh::size(MeshAxis axis) const {
  switch (axis) {
    case MeshAxis::kPipeline:
      return pp_;
    case MeshAxis::kDpReplicate:
      return dp_replicate_;
    case MeshAxis::kDpShard:
      return dp_shard_;
    case MeshAxis::kDp:
      return dp_replicate_ * dp_shard_;
    case MeshAxis::kExpert:
      return ep_;
    case MeshAxis::kExpertData:
      return dp_replicate_ * dp_shard_ / ep_;
    case MeshAxis::kExpertShard:
      return expert_shards();
    case MeshAxis::kExpertReplicate:
      return dp_replicate_ * dp_shard_ / ep_ / expert_shards();
  }
  return 0;
}

MeshCoordinates Mesh::coordinates(int world_rank) const {
  PPCTL_CHECK(world_rank >= 0 && world_rank < world_size(), "rank {} of {}", world_rank, world_size());
  return {PipelineRank(world_rank / (dp_replicate_ * dp_shard_)), world_rank / dp_shard_ % dp_replicate_,
          world_rank % dp_shard_};
}

int Mesh::world_rank(const MeshCoordinates& at) const {
  PPCTL_CHECK(at.pp.value >= 0 && at.pp.value < pp_ && at.dp_replicate >= 0 && at.dp_replicate < dp_replicate_ &&
                  at.dp_shard >= 0 && at.dp_shard < dp_shard_,
              "coordinates {}, {}, {} in {}", at.pp.value, at.dp_replicate, at.dp_shard, to_text());
  return (at.pp.value * dp_replicate_ + at.dp_replicate) * dp_shard_ + at.dp_shard;
}

int Mesh::index(MeshAxis axis, int world_rank) const {
  const MeshCoordinates at = coordinates(world_rank);
  const int dp = at.dp_replicate * dp_shard_ + at.dp_shard;
  switch (axis) {
    case MeshAxis::kPipeline:
      return at.pp.value;
    case MeshAxis::kDpReplicate:
      return at.dp_replicate;
    case MeshAxis::kDpShard:
      return at.dp_shard;
    case MeshAxis::kDp:
      return dp;
    case MeshAxis::kExpert:
      return dp % ep_;
    case MeshAxis::kExpertData:
      return dp / ep_;
    case MeshAxis::kExpertShard:
      return dp / ep_ % expert_shards();
    case MeshAxis::kExpertReplicate:
      return dp / ep_ / expert_shards();
  }
  return 0;
}

std::vector<int> Mesh::ranks_along(MeshAxis axis, int world_rank) const {
  // Along every axis positions are evenly spaced in world ranks.
  int stride = 1;
  if (axis == MeshAxis::kPipeline) stride = dp_replicate_ * dp_shard_;
  if (axis == MeshAxis::kDpReplicate) stride = dp_shard_;
  if (axis == MeshAxis::kExpertData || axis == MeshAxis::kExpertShard) stride = ep_;
  if (axis == MeshAxis::kExpertReplicate) stride = ep_ * expert_shards();
  const int first = world_rank - index(axis, world_rank) * stride;
  std::vector<int> ranks;
  for (int i = 0; i < size(axis); ++i) ranks.push_back(first + i * stride);
  return ranks;
}

std::vector<std::vector<int>> Mesh::groups(MeshAxis axis) const {
  std::vector<std::vector<int>> all;
  for (int rank = 0; rank < world_size(); ++rank) {
    if (index(axis, rank) == 0) all.push_back(ranks_along(axis, rank));
  }
  return all;
}

std::string Mesh::to_text() const {
  std::string text;
  const auto add = [&text](std::string_view name, int size) {
    if (size > 1) text += fmt::format("{}{} {}", text.empty() ? "" : " × ", name, size);
  };
  add("pp", pp_);
  add("dp_replicate", dp_replicate_);
  add("dp_shard", dp_shard_);
  if (ep_ > 1) text += fmt::format(" (ep {})", ep_);
  if (text.empty()) return "1 rank";
  return fmt::format("{} = {} ranks", text, world_size());
}

}  // namespace ppctl
