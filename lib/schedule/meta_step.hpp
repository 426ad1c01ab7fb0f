#pragma once

#include <cstdint>
#include <string_view>

#include "base/ids.hpp"

namespace ppctl {

/// The kinds of step. Names are those of the text form's long spelling.
enum class MetaStepType : std::uint8_t {
  // compute
  FORWARD,
  BACKWARD,         ///< dx and dw
  BACKWARD_INPUT,   ///< dx; weight gradients are queued
  BACKWARD_WEIGHT,  ///< dw; drains the queue
  // point to point; `stage` is the stage whose tensor travels: the sender's for SEND_, the receiver's for RECV_
  SEND_FORWARD,
  RECV_FORWARD,
  SEND_BACKWARD,
  RECV_BACKWARD,
  BATCH_SEND_RECV,  ///< duplex batch: sends and receives with one peer in one grouped call (sub-steps)
  // composite
  OVERLAP_B_F,  ///< sub-steps (backward of one microbatch, forward of another) on two threads
  // FSDP; no microbatch
  UNSHARD,
  RESHARD,
  REDUCE_GRAD,
  // activations of (stage, microbatch)
  LAUNCH_OFFLOAD,
  WAIT_OFFLOAD,
  LAUNCH_LOAD,
  WAIT_LOAD,
  // MPipe; `stage` is the stage that consumes the features
  LOAD_DATA,
  PREPROCESS_FORWARD,
  PREPROCESS_BACKWARD,
  SEND_DATA,
  RECV_DATA,
  SEND_FEATURES,
  RECV_FEATURES,
  SEND_FEATURE_GRADS,
  RECV_FEATURE_GRADS,
};
inline constexpr int kNumMetaStepTypes = 26;

/// "FORWARD", "SEND_FORWARD", ...
std::string_view to_string(MetaStepType type);

constexpr bool is_compute(MetaStepType type) { return type <= MetaStepType::BACKWARD_WEIGHT; }
constexpr bool is_composite(MetaStepType type) {
  return type == MetaStepType::BATCH_SEND_RECV || type == MetaStepType::OVERLAP_B_F;
}
/// A send or receive between stages (not a batch of them).
constexpr bool is_p2p(MetaStepType type) {
  return type >= MetaStepType::SEND_FORWARD && type <= MetaStepType::RECV_BACKWARD;
}

/// One step of one rank: a plain value of 8 bytes, since a large plan has 100 million of them.
///
/// Limits: 65,535 stages and ranks, 16,777,215 microbatches. A composite has no stage and microbatch of its own; `sub_index` is where its
/// sub-steps begin in the rank's side table (see RankSteps), `sub_count` how many there are.
class MetaStep {
 public:
  static constexpr int kMaxStages = 65'535;
  static constexpr int kMaxRanks = 65'535;
  static constexpr int kMaxMicrobatches = 16'777'215;

  constexpr MetaStep() : MetaStep(MetaStepType::FORWARD, kNoStage, kNoMicrobatch, kNoPeer) {}
  constexpr MetaStep(MetaStepType type, StageId stage, MicrobatchId microbatch = {}, PipelineRank peer = {})
      : MetaStep(type, stage.valid() ? stage.value : kNoStage, microbatch.valid() ? microbatch.value : kNoMicrobatch,
                 peer.valid() ? peer.value : kNoPeer) {}
  static constexpr MetaStep composite(MetaStepType type, std::uint32_t sub_index, int sub_count, PipelineRank peer = {}) {
    // 40 bits of stage and microbatch hold the index (32) and the count (8).
    return MetaStep(type, static_cast<int>(sub_index >> 16), static_cast<int>((sub_index & 0xffffU) << 8) | sub_count,
                    peer.valid() ? peer.value : kNoPeer);
  }

  constexpr MetaStepType type() const { return static_cast<MetaStepType>(type_); }
  /// None for composites.
  constexpr StageId stage() const {
    return is_composite(type()) || stage_ == kNoStage ? StageId() : StageId(static_cast<int>(stage_));
  }
  /// None for composites and FSDP steps.
  constexpr MicrobatchId microbatch() const {
    return is_composite(type()) || microbatch_ == kNoMicrobatch ? MicrobatchId() : MicrobatchId(static_cast<int>(microbatch_));
  }
  /// The other rank of a communication; none for other steps.
  constexpr PipelineRank peer() const { return peer_ == kNoPeer ? PipelineRank() : PipelineRank(static_cast<int>(peer_)); }
  /// Composites only.
  constexpr std::uint32_t sub_index() const {
    return (static_cast<std::uint32_t>(stage_) << 16) | (static_cast<std::uint32_t>(microbatch_) >> 8);
  }
  constexpr int sub_count() const { return static_cast<int>(microbatch_ & 0xffU); }

  friend constexpr bool operator==(MetaStep a, MetaStep b) {
    return a.type_ == b.type_ && a.stage_ == b.stage_ && a.microbatch_ == b.microbatch_ && a.peer_ == b.peer_;
  }

 private:
  static constexpr int kNoStage = 0xffff;
  static constexpr int kNoMicrobatch = 0xffffff;
  static constexpr int kNoPeer = 0xffff;

  constexpr MetaStep(MetaStepType type, int stage, int microbatch, int peer)
      : type_(static_cast<std::uint64_t>(type)),
        stage_(static_cast<std::uint64_t>(stage)),
        microbatch_(static_cast<std::uint64_t>(microbatch)),
        peer_(static_cast<std::uint64_t>(peer)) {}

  std::uint64_t type_ : 8;
  std::uint64_t stage_ : 16;
  std::uint64_t microbatch_ : 24;
  std::uint64_t peer_ : 16;
};
static_assert(sizeof(MetaStep) == 8);

}  // namespace ppctl
