#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/gradient_fold.hpp"
#include "runtime/stage_edges.hpp"
#include "runtime/step_hooks.hpp"
#include "schedule/schedule.hpp"

namespace ppctl {

struct TransposedEncoderOptions {
  StageId consumer{0};      ///< the stage that takes the features: they follow what the stage before it sends
  bool trains = true;       ///< the encoder has a backward
  bool recomputes = false;  ///< its forward runs again before the backward, instead of keeping what it saved
  /// What is in the encoder's gradients when a step begins counts, and is the same on all ranks: the sum goes on from
  /// it. Else a step replaces it.
  bool accumulates = false;
  double timeout_s = 300;
  int tag_space = 2;  ///< apart from that of the executor
};

/// MPipe's preprocess module of one rank: loads the rank's microbatches and runs the encoder on them, as the schedule's
/// steps say; features go to the rank of the stage that takes them, their gradients come back. Gradients of the
/// encoder's parameters are folded in the order of microbatches at the end of the step (GradientFold), so that every
/// rank has the same and they have the bits of a rank that does it all. Where a backward is divided, gradients of its
/// second half wait in the queue, by microbatch, so halves of different microbatches come in any order; a module that
/// queues nothing makes all of them in the first half, and the second one is empty. One thread, except that features
/// may be taken while feature gradients are given.
class TransposedEncoder final : public PreprocessHooks {
 public:
  /// What is loaded for a microbatch: the encoder's inputs, or where there is no encoder what the stage gets.
  using Loader = std::function<TensorList(const Microbatch&)>;

  /// `module` may be null: then data alone is transposed. `pipeline`: the ranks by pipeline rank; must outlive the
  /// object.
  TransposedEncoder(const Schedule& schedule, const PipelineRanks& ranks, std::shared_ptr<StageModule> module,
                    Loader loader, Group& pipeline, TransposedEncoderOptions options = {});

  /// The encoder's parameters are sharded: `shard` knows them as `stage`.
  void set_shard(ShardHooks& shard, StageId stage);
  /// The same where every microbatch's gradients are reduced, into `gradients`, those shards of the encoder that are
  /// trained: then these are kept and folded.
  void set_shard(ShardHooks& shard, StageId stage, std::vector<at::Tensor> gradients);
  /// Says whether the batch that comes is the last one of the optimizer's step: gradients are complete after it.
  void begin_batch(bool is_last) { last_batch_ = is_last; }

  /// Memory of the buffers that receives use, in use or not.
  std::size_t receive_buffer_bytes() const { return edges_.receive_buffer_bytes(); }

  void run(const MetaStep& step, StepContext& context) override;
  void await(const MetaStep& step, std::string_view context, WaitSpan* wait) override;
  void begin_step(std::span<const Microbatch> microbatches) override;
  void end_step(std::string_view context) override;
  bool feeds(StageId stage) const override { return stage == options_.consumer; }
  TensorList take_features(const MetaStep& forward, std::string_view context, WaitSpan* wait) override;
  void give_feature_grads(const MetaStep& backward, TensorList grads) override;

 private:
  /// What a rank holds of one microbatch.
  struct Slot {
    TensorList data;
    TensorList features;
    TensorList grads;
    PendingTensors incoming;
    PendingTensors incoming_grads;
    SavedActivations saved;
  };

  Slot& slot(const MetaStep& step) { return slots_[static_cast<std::size_t>(step.microbatch().value)]; }
  const Microbatch& microbatch(const MetaStep& step) const {
    return microbatches_[static_cast<std::size_t>(step.microbatch().value)];
  }
  void load(const MetaStep& step);
  void forward(const MetaStep& step);
  void backward(const MetaStep& step);
  void backward_weight(const MetaStep& step);
  void keep_gradients(int microbatch);
  TensorList wait_for(PendingTensors& pending, std::string_view context, WaitSpan* wait) const;
  Deadline deadline() const { return Deadline::after_seconds(options_.timeout_s); }

  std::shared_ptr<StageModule> module_;
  Loader loader_;
  TransposedEncoderOptions options_;
  StageEdges edges_;
  Group& pipeline_;
  int num_microbatches_;
  std::optional<GradientFold> fold_;
  WeightGradQueue queue_;
  ShardHooks* shard_ = nullptr;
  StageId shard_stage_;
  bool reduces_every_microbatch_ = false;
  bool last_batch_ = true;
  std::span<const Microbatch> microbatches_;
  std::vector<Slot> slots_;
};

}  // namespace ppctl
