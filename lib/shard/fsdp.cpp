#include "shard/fsdp.hpp"

#include <utility>

#include "base/error.hpp"
#include "comm/reduce.hpp"
#include "model/flat_storage.hpp"

namespace ppctl {
namespace {

ElementType element_type(at::ScalarType type) {
  if (type == at::kBFloat16) return ElementType::kBFloat16;
  return type == at::kDouble ? ElementType::kFloat64 : ElementType::kFloat32;
}

std::byte* bytes_of(const at::Tensor& flat, std::int64_t offset) {
  return static_cast<std::byte*>(flat.mutable_data_ptr()) + offset * flat.element_size();
}

/// The rows of one rank in a flat buffer of the group.
template <class Bytes>
std::vector<Bytes> rows_in(const at::Tensor& flat, const std::vector<ShardPiece>& pieces) {
  std::vector<Bytes> parts;
  parts.reserve(pieces.size());
  for (const ShardPiece& piece : pieces) {
    const auto size = static_cast<std::size_t>(piece.numel) * flat.element_size();
    if (size != 0) parts.push_back({bytes_of(flat, piece.flat_offset), size});
  }
  return parts;
}

}  // namespace

Fsdp::Fsdp(Group& ranks, Group& expert_ranks, std::vector<StageShards> stages, FsdpOptions options)
    : ranks_(ranks), expert_ranks_(expert_ranks), options_(options) {
  for (StageShards& stage : stages) {
    for (const GroupShard* shard : stage.groups) {
      const Group& of = ranks_of(*shard);
      PPCTL_CHECK(shard->count() == of.size() && shard->index() == of.rank(),
                  "shard {} of {} of group '{}' on rank {} of {}", shard->index(), shard->count(),
                  shard->group().name(), of.rank(), of.size());
    }
    stages_[stage.stage.value].groups = std::move(stage.groups);
  }
}

Fsdp::~Fsdp() = default;

void Fsdp::wait(Request& request, Stage& stage, std::string_view what) const {
  const Nanoseconds start = monotonic_now();
  request.wait(Deadline::after_seconds(options_.timeout_s), what);
  stage.stats.wait += monotonic_now() - start;
}

Group& Fsdp::ranks_of(const GroupShard& shard) const {
  return shard.group().kind() == GroupKind::kExperts ? expert_ranks_ : ranks_;
}

RequestPtr Fsdp::start_gather(const GroupShard& shard, const at::Tensor& flat) {
  Group& ranks = ranks_of(shard);
  const ShardLayout& layout = shard.layout();
  const auto count = static_cast<std::size_t>(ranks.size());
  // Each rank sends its rows, which are in place, to all others.
  const std::vector<std::vector<ConstBytes>> send(count, rows_in<ConstBytes>(flat, layout.pieces(ranks.rank())));
  std::vector<std::vector<MutableBytes>> receive(count);
  for (int rank = 0; rank < ranks.size(); ++rank) {
    if (rank != ranks.rank()) receive[rank] = rows_in<MutableBytes>(flat, layout.pieces(rank));
  }
  return ranks.exchange_pieces(send, receive);
}

void Fsdp::unshard(StageId id) {
  Stage& stage = at(id);
  if (stage.unsharded) return;
  stage.unsharded = true;
  for (const GroupShard* shard : stage.groups) {
    if (shard->is_whole()) continue;
    const at::Tensor flat = shard->group().flat_data();
    restore_storage(flat);
    shard->copy_to(flat);
    stage.gathers.push_back(start_gather(*shard, flat));
    ++stage.stats.all_gathers;
  }
}

void Fsdp::finish_gathers(Stage& stage) {
  for (const RequestPtr& gather : stage.gathers) wait(*gather, stage, "all-gather of parameters");
  stage.gathers.clear();
}

void Fsdp::before_compute(StageId id, bool makes_weight_grads) {
  Stage& stage = at(id);
  PPCTL_CHECK(stage.unsharded, "stage {} computes with sharded parameters", id);
  finish_gathers(stage);
  if (!makes_weight_grads) return;
  for (const GroupShard* shard : stage.groups) {
    const at::Tensor grad = shard->group().flat_grad();
    if (has_storage(grad) || !shard->trainable()) continue;
    restore_storage(grad);
    grad.zero_();
  }
}

void Fsdp::reshard(StageId id) {
  Stage& stage = at(id);
  if (!stage.unsharded) return;
  finish_gathers(stage);
  for (const GroupShard* shard : stage.groups) {
    if (!shard->is_whole()) release_storage(shard->group().flat_data());
  }
  stage.unsharded = false;
}

void Fsdp::reduce_grad(StageId id) {
  if (!last_batch_ && !options_.reduce_every_microbatch) return;
  Stage& stage = at(id);
  std::optional<Reduction> previous;
  for (GroupShard* shard : stage.groups) {
    if (!shard->trainable() || shard->is_whole()) continue;
    Reduction current = start_reduction(*shard);
    ++stage.stats.reduce_scatters;
    if (previous) finish_reduction(*previous, stage);
    previous = std::move(current);
  }
  if (previous) finish_reduction(*previous, stage);
}

Fsdp::Reduction Fsdp::start_reduction(GroupShard& shard) {
  Group& ranks = ranks_of(shard);
  const ShardLayout& layout = shard.layout();
  const at::Tensor grad = shard.group().flat_grad();
  PPCTL_CHECK(has_storage(grad), "the gradients of '{}' are reduced before a backward", shard.group().name());
  Reduction reduction{&shard, grad.scalar_type() == at::kFloat ? grad.to(options_.reduce_dtype) : grad, {}, {}};
  reduction.received = at::empty({ranks.size(), layout.numel(shard.index())}, reduction.sent.options());
  const auto count = static_cast<std::size_t>(ranks.size());
  std::vector<std::vector<ConstBytes>> send(count);
  std::vector<std::vector<MutableBytes>> receive(count);
  for (int rank = 0; rank < ranks.size(); ++rank) {
    if (rank == ranks.rank()) continue;
    send[rank] = rows_in<ConstBytes>(reduction.sent, layout.pieces(rank));
    const at::Tensor row = reduction.received[rank];
    receive[rank] = {{bytes_of(row, 0), row.nbytes()}};
  }
  reduction.request = ranks.exchange_pieces(send, receive);
  return reduction;
}

void Fsdp::finish_reduction(Reduction& reduction, Stage& stage) {
  wait(*reduction.request, stage, "reduce-scatter of gradients");
  const GroupShard& shard = *reduction.shard;
  const Group& ranks = ranks_of(shard);
  const at::Tensor& grad = shard.flat_grad();
  const bool first = !has_storage(grad);  // of the step; later ones are added
  if (first) restore_storage(grad);
  const bool direct = first && grad.scalar_type() == reduction.sent.scalar_type();
  const at::Tensor sum = direct ? grad : at::empty(grad.sizes(), reduction.sent.options());
  const std::int64_t shard_numel = grad.numel();
  std::vector<const std::byte*> sources(static_cast<std::size_t>(ranks.size()));
  for (const ShardPiece& piece : shard.layout().pieces(shard.index())) {
    for (int rank = 0; rank < ranks.size(); ++rank) {
      sources[rank] = rank == ranks.rank() ? bytes_of(reduction.sent, piece.flat_offset)
                                           : bytes_of(reduction.received, rank * shard_numel + piece.shard_offset);
    }
    sum_in_order(element_type(sum.scalar_type()), sources, bytes_of(sum, piece.shard_offset),
                 static_cast<std::size_t>(piece.numel) * sum.element_size());
  }
  if (!direct) first ? grad.copy_(sum) : grad.add_(sum);
  release_storage(shard.group().flat_grad());
}

void Fsdp::unshard_all() {
  for (auto& [id, stage] : stages_) unshard(StageId(id));
  for (auto& [id, stage] : stages_) finish_gathers(stage);
}

void Fsdp::reshard_all() {
  for (auto& [id, stage] : stages_) reshard(StageId(id));
}

at::Tensor Fsdp::gather_master(const GroupShard& shard) {
  at::Tensor flat = at::zeros({shard.group().numel()}, shard.flat_master().options());
  shard.copy_to(flat);
  start_gather(shard, flat)->wait(Deadline::after_seconds(options_.timeout_s), "all-gather of masters");
  return flat;
}

}  // namespace ppctl
