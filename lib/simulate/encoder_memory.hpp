#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "arch/stage_memory.hpp"
#include "schedule/schedule.hpp"
#include "simulate/held_state.hpp"
#include "simulate/peer_buffers.hpp"
#include "simulate/rank_memory.hpp"

namespace ppctl {

/// What MPipe's steps do to the memory of one rank: images that were loaded, what the encoder saves, features and their
/// gradients, and the encoder's own state. Each microbatch's gradients of the encoder are kept until the end of the
/// step, where they are folded (GradientFold).
class EncoderMemory {
 public:
  /// Called at moments that may be the fullest: with what lives then beyond activations() and gradients(), and whether
  /// that is gradients.
  using Note = std::function<void(std::int64_t extra, bool extra_is_gradients)>;

  /// `model` and `schedule` must outlive the object.
  EncoderMemory(const Schedule& schedule, const MemoryModel& model, PipelineRank rank);

  /// Adds what lives between steps.
  void add_to(RankMemory& memory) const;
  /// One of MPipe's steps.
  void run(MetaStep step, const Note& note);
  /// The fold, and what follows it.
  void end_step(const Note& note);

  /// Of the stage that takes the features, or the images where these alone are transposed: their buffers.
  void take(int peer) { buffers_.take(peer, message_bytes_); }
  void release(int peer) { buffers_.release(peer, message_bytes_); }

  std::int64_t activations() const { return activations_; }
  std::int64_t unsharded() const { return held_ ? held_->unsharded() : 0; }
  std::int64_t gradients() const { return held_ ? held_->gradients() : 0; }
  /// Of single microbatches, until they are folded.
  std::int64_t kept_gradients() const { return kept_; }
  std::int64_t buffer_bytes() const { return buffers_.bytes(); }

 private:
  int consumer(MetaStep step) const;
  /// Whether the features of a microbatch are taken on this rank.
  bool is_local(MetaStep step) const { return consumer(step) == rank_.value; }
  void forward(MetaStep step, const Note& note);
  void backward(MetaStep step, const Note& note);
  void backward_weight(MetaStep step, const Note& note);
  void run_part(const StepMemory& part, const Note& note);
  void keep(const Note& note);

  const Schedule& schedule_;
  const MemoryModel& model_;
  PipelineRank rank_;
  std::int64_t pixels_;         ///< bytes of a microbatch's images
  std::int64_t message_bytes_;  ///< of what goes to the stage
  bool trains_ = false;
  bool repeats_ = false;            ///< the forward runs again before the backward
  StageMemory local_;               ///< of a microbatch whose features are taken on this rank
  StageMemory remote_;              ///< of one whose gradients come from another
  StepMemory kept_images_forward_;  ///< of a forward whose images are needed once more
  std::optional<HeldState> held_;
  PeerBuffers buffers_;
  std::int64_t activations_ = 0;
  std::int64_t kept_ = 0;
  int num_kept_ = 0;
};

}  // namespace ppctl
