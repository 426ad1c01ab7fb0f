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
  PREPROCESS_BACKWARD,         ///< the encoder's dx and dw; where it recomputes, its forward again before
  PREPROCESS_BACKWARD_INPUT,   ///< the same with weight gradients queued
  PREPROCESS_BACKWARD_WEIGHT,  ///< drains the queue: the microbatch's gradients of the encoder are complete
  SEND_DATA,
  RECV_DATA,
  SEND_FEATURES,
  RECV_FEATURES,
  SEND_FEATURE_GRADS,
  RECV_FEATURE_GRADS,
};
inline constexpr int kNumMetaStepTypes = 28;

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

/// MPipe's: of data and encoder, and their transfers.
constexpr bool is_preprocess(MetaStepType type) { return type >= MetaStepType::LOAD_DATA; }

/// An encoder's backward that takes the gradient of its features: the whole one, or its first half.
constexpr bool takes_feature_grads(MetaStepType type) {
  return type == MetaStepType::PREPROCESS_BACKWARD || type == MetaStepType::PREPROCESS_BACKWARD_INPUT;
}

/// One step of one rank: a plain value of 8 bytes, since a large plan has 100 million of them.
///
/// Limits: 65,535 stages and ranks, 16,777,215 microbatches. A composite has no stage and microbatch of its own;
/// `sub_index` is where its sub-steps begin in the rank's side table (see RankSteps), `sub_count` how many there are.
class MetaStep {
 public:
  static constexpr int kMaxStages = 65'535;
  static constexpr int kMaxRanks = 65'535;
  static constexpr int kMaxMicrobatches = 16'777'215;

  constexpr MetaStep() : MetaStep(MetaStepType::FORWARD, kNoStageValue, kNoMicrobatchValue, kNoPeer) {}
  constexpr MetaStep(MetaStepType type, StageId stage, MicrobatchId microbatch = {}, PipelineRank peer = {})
      : MetaStep(type, stage.valid() ? stage.value : kNoStageValue,
                 microbatch.valid() ? microbatch.value : kNoMicrobatchValue, peer.valid() ? peer.value : kNoPeer) {}
  static constexpr MetaStep composite(MetaStepType type, std::uint32_t sub_index, int sub_count,
                                      PipelineRank peer = {}) {
    // 40 bits of stage and microbatch hold the index (32) and the count (8).
    return MetaStep(type, static_cast<int>(sub_index >> 16), static_cast<int>((sub_index & 0xffffU) << 8) | sub_count,
                    peer.valid() ? peer.value : kNoPeer);
  }

  constexpr MetaStepType type() const { return static_cast<MetaStepType>(bits_ & 0xffU); }
  /// None for composites.
  constexpr StageId stage() const {
    return is_composite(type()) || stage_value() == kNoStageValue ? StageId() : StageId(stage_value());
  }
  /// None for composites and FSDP steps.
  constexpr MicrobatchId microbatch() const {
    return is_composite(type()) || microbatch_value() == kNoMicrobatchValue ? MicrobatchId()
                                                                            : MicrobatchId(microbatch_value());
  }
  /// The same two as plain numbers and without a look at the kind, for loops over millions of steps. REQUIRES: no
  /// composite; a number that is not there reads as kNoStageValue or kNoMicrobatchValue.
  constexpr int stage_value() const { return static_cast<int>((bits_ >> kStageShift) & 0xffffU); }
  constexpr int microbatch_value() const { return static_cast<int>((bits_ >> kMicrobatchShift) & 0xffffffU); }
  static constexpr int kNoStageValue = 0xffff;
  static constexpr int kNoMicrobatchValue = 0xffffff;
  /// The other rank of a communication; none for other steps.
  constexpr PipelineRank peer() const {
    const int value = static_cast<int>(bits_ >> kPeerShift);
    return value == kNoPeer ? PipelineRank() : PipelineRank(value);
  }
  /// Composites only.
  constexpr std::uint32_t sub_index() const {
    return (static_cast<std::uint32_t>(stage_value()) << 16) | (static_cast<std::uint32_t>(microbatch_value()) >> 8);
  }
  constexpr int sub_count() const { return microbatch_value() & 0xff; }

  friend constexpr bool operator==(MetaStep, MetaStep) = default;

 private:
  static constexpr int kNoPeer = 0xffff;
  // One word of type (8 bits), stage (16), microbatch (24) and peer (16), lowest first. Shifts instead of bit fields:
  // those are written part by part, and a copy right after stalls.
  static constexpr int kStageShift = 8;
  static constexpr int kMicrobatchShift = 24;
  static constexpr int kPeerShift = 48;

  constexpr MetaStep(MetaStepType type, int stage, int microbatch, int peer)
      : bits_(static_cast<std::uint64_t>(type) | static_cast<std::uint64_t>(stage & 0xffff) << kStageShift |
              static_cast<std::uint64_t>(microbatch & 0xffffff) << kMicrobatchShift |
              static_cast<std::uint64_t>(peer & 0xffff) << kPeerShift) {}

  std::uint64_t bits_;
};
static_assert(sizeof(MetaStep) == 8);

}  // namespace ppctl
