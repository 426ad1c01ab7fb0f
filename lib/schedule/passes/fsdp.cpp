#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.hpp"
#include "schedule/passes/insertions.hpp"
#include "schedule/passes/passes.hpp"

// Before each beat, the stages of the next `unshard_lookahead` distinct stages that will be computed, this beat's
// included, are unsharded, so that their all-gather has the beats in between to hide under. A stage is resharded after
// its last use of the step; with reshard_after_forward also whenever it has been used and is not among those next
// stages (freeing it sooner would only mean to gather it again at once). Its gradients are reduced after the last of
// them, or after each with reduce_every_microbatch.
//
// Time is steps · chunks of a rank at worst.

namespace ppctl {
namespace {

constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

/// What a rank does with one of its stages.
struct Chunk {
  StageId stage;
  std::vector<std::size_t> uses;  ///< beats, ascending
  std::size_t next = 0;           ///< index of the next use
  std::size_t last_gradient = kNever;
  bool unsharded = false;

  std::size_t next_use() const { return next < uses.size() ? uses[next] : kNever; }
};

bool makes_weight_gradient(MetaStepType type) {
  return type == MetaStepType::BACKWARD || type == MetaStepType::BACKWARD_WEIGHT;
}

class RankFsdp {
 public:
  RankFsdp(const Placement& placement, PipelineRank name, RankSteps& rank, const PassOptions& options)
      : rank_(rank), options_(options), beats_(beats_of(rank)) {
    for (const StageId stage : placement.stages_of(name)) chunks_.push_back({stage, {}, 0, kNever, false});
    order_.resize(chunks_.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
  }

  void run() {
    find_uses();
    for (std::size_t beat = 0; beat <= beats_.size(); ++beat) {
      if (beat > 0) finish(beat - 1);
      unshard(beat);
    }
    insertions_.apply(rank_);
  }

 private:
  Chunk& chunk_of(MetaStep part) {
    return *std::ranges::find_if(chunks_, [&](const Chunk& chunk) { return chunk.stage == part.stage(); });
  }

  void find_uses() {
    for (std::size_t beat = 0; beat < beats_.size(); ++beat) {
      for_each_part(rank_, beats_[beat], [&](MetaStep part) {
        Chunk& chunk = chunk_of(part);
        if (chunk.uses.empty() || chunk.uses.back() != beat) chunk.uses.push_back(beat);
        if (makes_weight_gradient(part.type())) chunk.last_gradient = beat;
      });
    }
  }

  /// What comes after a beat: reductions, then reshards.
  void finish(std::size_t beat) {
    for_each_part(rank_, beats_[beat], [&](MetaStep part) {
      Chunk& chunk = chunk_of(part);
      if (chunk.next_use() == beat) ++chunk.next;
      const bool reduces = options_.reduce_every_microbatch || chunk.last_gradient == beat;
      if (makes_weight_gradient(part.type()) && reduces) {
        insertions_.add(beat + 1, MetaStep(MetaStepType::REDUCE_GRAD, chunk.stage));
      }
    });
    const std::size_t horizon = options_.reshard_after_forward ? window_end() : kNever;
    for (Chunk& chunk : chunks_) {
      const bool is_needed = chunk.next_use() != kNever && chunk.next_use() <= horizon;
      if (!chunk.unsharded || is_needed) continue;
      insertions_.add(beat + 1, MetaStep(MetaStepType::RESHARD, chunk.stage));
      chunk.unsharded = false;
    }
  }

  void unshard(std::size_t beat) {
    const bool any =
        std::ranges::any_of(chunks_, [](const Chunk& chunk) { return !chunk.unsharded && chunk.next_use() != kNever; });
    if (!any) return;
    const std::size_t horizon = window_end();
    for (const std::size_t i : order_) {
      Chunk& chunk = chunks_[i];
      if (chunk.unsharded || chunk.next_use() == kNever || chunk.next_use() > horizon) continue;
      insertions_.add(beat, MetaStep(MetaStepType::UNSHARD, chunk.stage));
      chunk.unsharded = true;
    }
  }

  /// The beat of the first use of the last stage of the window. Leaves `order_` sorted by next use.
  std::size_t window_end() {
    std::ranges::sort(order_, {}, [&](std::size_t i) { return std::pair(chunks_[i].next_use(), i); });
    const std::size_t window = std::min(chunks_.size(), static_cast<std::size_t>(options_.unshard_lookahead));
    return chunks_[order_[window - 1]].next_use();
  }

  RankSteps& rank_;
  const PassOptions& options_;
  std::vector<MetaStep> beats_;
  std::vector<Chunk> chunks_;
  std::vector<std::size_t> order_;  ///< of chunks
  Insertions insertions_;
};

}  // namespace

void apply_fsdp(Schedule& schedule, const PassOptions& options) {
  if (options.unshard_lookahead < 1) {
    throw_error("fsdp: unshard_lookahead is {}; it must be at least 1", options.unshard_lookahead);
  }
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    RankFsdp(schedule.placement, PipelineRank(static_cast<int>(rank)), schedule.ranks[rank], options).run();
  }
}

}  // namespace ppctl
