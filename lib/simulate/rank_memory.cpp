#include "simulate/rank_memory.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "arch/job_model.hpp"
#include "arch/stage_memory.hpp"
#include "base/error.hpp"
#include "comm/edge_buffers.hpp"
#include "schedule/links.hpp"
#include "schedule/mpipe_options.hpp"
#include "schedule/text.hpp"
#include "simulate/held_state.hpp"

namespace ppctl {
namespace {

constexpr std::int64_t kIdBytes = 8;

/// Receives from one peer.
struct PeerBuffers {
  int in_use = 0;  ///< posted, or with tensors that somebody holds
  int most_in_use = 0;
  int posted = 0;
  int most_posted = 0;
};

class RankWalk {
 public:
  RankWalk(const Schedule& schedule, const MemoryModel& model, PipelineRank rank)
      : schedule_(schedule),
        model_(model),
        rank_(rank),
        steps_(schedule.ranks[static_cast<std::size_t>(rank.value)]),
        links_(schedule),
        hidden_bytes_(model.shape.tokens() * model.spec.hidden_size * model.shape.element_bytes) {
    for (const StageId stage : schedule.placement.stages_of(rank)) {
      held_.emplace(stage.value, HeldState(model, stage.value));
      batch_ += schedule.num_microbatches * batch_bytes(stage.value);
    }
    if (model.spec.transposed_layers < 0) return;
    held_.emplace(schedule.num_stages(), HeldState(model, transposed_range(model.spec)));
    held_.at(schedule.num_stages()).unshard();
    encoder_ = stage_memory(model.spec, transposed_range(model.spec), model.shape);
  }

  RankMemory run() {
    for (const auto& [stage, held] : held_) held.add_to(memory_);
    for (const MetaStep step : steps_.steps) {
      if (step.type() == MetaStepType::BATCH_SEND_RECV) {
        batch_send_recv(step);
      } else if (step.type() == MetaStepType::OVERLAP_B_F) {
        overlapped_pair(step);
      } else {
        walk(step, step);
      }
    }
    sum_tied_weights();
    for (const auto& [peer, buffers] : buffers_) {
      const EdgeBufferBytes bytes =
          edge_buffer_bytes(static_cast<std::size_t>(hidden_bytes_),
                            static_cast<std::size_t>(boundary_aux_bytes(model_.spec, /*gradient=*/false)));
      memory_.buffers += static_cast<std::int64_t>(bytes.steady) * buffers.most_in_use;
      if (bytes.first != bytes.steady) memory_.buffers += static_cast<std::int64_t>(bytes.first) * buffers.most_posted;
    }
    return memory_;
  }

 private:
  /// Of a microbatch, at a stage: token ids, labels and pixels are read where they are needed.
  std::int64_t batch_bytes(int stage) const {
    const StageRange range = model_.range_of(stage);
    const std::int64_t tensors = (reads_tokens(model_.spec, range) ? 1 : 0) + (range.has_head ? 1 : 0);
    const std::int64_t pixels = reads_images(model_.spec, range) ? pixel_bytes(model_.spec, model_.shape) : 0;
    return tensors * model_.shape.tokens() * kIdBytes + pixels;
  }

  /// `shown` is the step of the schedule that `step` is or is a part of.
  void walk(MetaStep step, MetaStep shown) {
    switch (step.type()) {
      case MetaStepType::FORWARD:
        return forward(step, shown);
      case MetaStepType::BACKWARD:
      case MetaStepType::BACKWARD_INPUT:
        return backward(step, shown);
      case MetaStepType::BACKWARD_WEIGHT:
        return backward_weight(step, shown);
      case MetaStepType::SEND_FORWARD:
      case MetaStepType::SEND_BACKWARD:
        activations_ -= sent_bytes(step) + std::exchange(batched_, 0);
        return;
      case MetaStepType::RECV_FORWARD:
      case MetaStepType::RECV_BACKWARD:
        return post(step.peer().value);
      case MetaStepType::LAUNCH_OFFLOAD:
        swapped_ += stage(step).swapped_bytes;
        memory_.swapped = std::max(memory_.swapped, swapped_);
        return;
      case MetaStepType::WAIT_LOAD:
        swapped_ -= stage(step).swapped_bytes;
        return;
      case MetaStepType::WAIT_OFFLOAD:
        activations_ -= stage(step).swapped_bytes;
        return;
      case MetaStepType::LAUNCH_LOAD:
        activations_ += stage(step).swapped_bytes;
        return note(0, shown);
      case MetaStepType::UNSHARD:
        held(step).unshard();
        return note(0, shown);
      case MetaStepType::RESHARD:
        return held(step).reshard();
      case MetaStepType::RECV_DATA:
      case MetaStepType::RECV_FEATURES:
      case MetaStepType::RECV_FEATURE_GRADS:
        return post(step.peer().value);
      case MetaStepType::LOAD_DATA:
      case MetaStepType::PREPROCESS_FORWARD:
      case MetaStepType::PREPROCESS_BACKWARD:
      case MetaStepType::PREPROCESS_BACKWARD_INPUT:
      case MetaStepType::PREPROCESS_BACKWARD_WEIGHT:
      case MetaStepType::SEND_DATA:
      case MetaStepType::SEND_FEATURES:
      case MetaStepType::SEND_FEATURE_GRADS:
        return preprocess(step, shown);
      case MetaStepType::REDUCE_GRAD: {
        const std::int64_t extra = held(step).reduce_grad();
        return note(extra, shown, /*extra_is_gradients=*/true);
      }
      default:
        return;
    }
  }

  /// Of MPipe's steps: pixels live until they are encoded (or sent), what the encoder saves until its backward, and
  /// each microbatch's gradient of the encoder until the end of the step. Between the halves of a
  /// backward it is what the queue keeps.
  void preprocess(MetaStep step, MetaStep shown) {
    const bool repeats = model_.encoder_recomputes;
    switch (step.type()) {
      case MetaStepType::LOAD_DATA:
        activations_ += pixel_bytes(model_.spec, model_.shape);
        return note(0, shown);
      case MetaStepType::PREPROCESS_FORWARD:
        note(encoder_.forward.peak, shown);
        activations_ +=
            repeats ? encoder_.output_bytes : encoder_.forward.change - pixel_bytes(model_.spec, model_.shape);
        return;
      case MetaStepType::PREPROCESS_BACKWARD: {
        HeldState& held = held_.at(schedule_.num_stages());
        held.before_weight_grads();
        const std::int64_t saved = encoder_.forward.change - encoder_.output_bytes;
        note(repeats ? std::max(encoder_.forward.peak, saved + encoder_.backward.peak) : encoder_.backward.peak, shown);
        activations_ += repeats ? -pixel_bytes(model_.spec, model_.shape) : -saved;
        activations_ += held.trained_gradients();
        return note(0, shown);
      }
      case MetaStepType::PREPROCESS_BACKWARD_INPUT: {
        const std::int64_t saved = encoder_.forward.change - encoder_.output_bytes;
        const std::int64_t peak = encoder_.backward_input.peak;
        note(repeats ? std::max(encoder_.forward.peak, saved + peak) : peak, shown);
        activations_ += encoder_.backward_input.change;
        if (repeats) activations_ += saved - pixel_bytes(model_.spec, model_.shape);
        return;
      }
      case MetaStepType::PREPROCESS_BACKWARD_WEIGHT: {
        HeldState& held = held_.at(schedule_.num_stages());
        held.before_weight_grads();
        apply(encoder_.backward_weight, shown);
        activations_ += held.trained_gradients();
        return note(0, shown);
      }
      case MetaStepType::SEND_DATA:
        activations_ -= pixel_bytes(model_.spec, model_.shape);
        return;
      case MetaStepType::SEND_FEATURES:
        activations_ -= encoder_.output_bytes;
        return;
      default:
        activations_ -= hidden_bytes(model_.spec, model_.spec.first_stage_layer(), model_.shape);
    }
  }

  /// A transport has copied what is sent when it returns. What is part of a batch is kept until the batch is complete,
  /// receives included, which the next send finds out.
  void batch_send_recv(MetaStep batch) {
    activations_ -= std::exchange(batched_, 0);
    bool receives = false;
    for (const MetaStep sub : steps_.sub_steps_of(batch)) {
      const bool is_receive = sub.type() == MetaStepType::RECV_FORWARD || sub.type() == MetaStepType::RECV_BACKWARD;
      receives = receives || is_receive;
      is_receive ? post(sub.peer().value) : void(batched_ += sent_bytes(sub));
    }
    if (!receives) activations_ -= std::exchange(batched_, 0);
  }

  std::int64_t sent_bytes(MetaStep send) {
    if (send.type() == MetaStepType::SEND_FORWARD) return stage(send).output_bytes;
    return hidden_bytes(model_.spec, model_.range_of(send.stage_value()).first_layer, model_.shape) +
           boundary_aux_bytes(model_.spec, /*gradient=*/true);
  }

  void forward(MetaStep step, MetaStep shown) {
    const StageMemory& memory = stage(step);
    take(upstream(step));
    apply(memory.forward, shown);
    if (memory.input_held == HeldUntil::kForward) release(upstream(step));
  }

  void backward(MetaStep step, MetaStep shown) {
    const StageMemory& memory = stage(step);
    const bool whole = step.type() == MetaStepType::BACKWARD;
    take(downstream(step));
    if (whole) held(step).before_weight_grads();
    apply(whole ? memory.backward : memory.backward_input, shown);
    if (memory.input_held == HeldUntil::kBackward) release(upstream(step));
    if ((whole ? memory.gradient_held : memory.divided_gradient_held) == HeldUntil::kBackward)
      release(downstream(step));
  }

  /// Two threads: at worst, both halves are at their peaks at once.
  void overlapped_pair(MetaStep pair) {
    std::int64_t both = 0;
    for (const MetaStep sub : steps_.sub_steps_of(pair)) {
      const bool is_forward = sub.type() == MetaStepType::FORWARD;
      both += is_forward ? stage(sub).forward.peak : stage(sub).backward.peak;
      if (!is_forward) held(sub).before_weight_grads();
    }
    note(both, pair);
    for (const MetaStep sub : steps_.sub_steps_of(pair)) walk(sub, pair);
  }

  void backward_weight(MetaStep step, MetaStep shown) {
    const StageMemory& memory = stage(step);
    held(step).before_weight_grads();
    apply(memory.backward_weight, shown);
    if (memory.divided_gradient_held == HeldUntil::kWeight) release(downstream(step));
  }

  /// The first stage gets features of the rank that encodes the microbatch.
  int upstream(MetaStep step) const {
    const bool fed = step.stage_value() == 0 && model_.spec.transposed_layers >= 0;
    if (fed) return mpipe_owner(step.microbatch_value(), schedule_.pp(), schedule_.num_microbatches);
    return links_.upstream(step.stage_value(), step.microbatch_value());
  }
  int downstream(MetaStep step) const { return links_.downstream(step.stage_value(), step.microbatch_value()); }
  bool is_remote(int rank) const { return rank >= 0 && rank != rank_.value; }
  HeldState& held(MetaStep step) { return held_.at(step.stage_value()); }

  const StageMemory& stage(MetaStep step) {
    const StageEnds ends{is_remote(upstream(step)), is_remote(downstream(step))};
    const auto key = std::make_tuple(step.stage_value(), ends.input_received, ends.gradient_received);
    const auto found = stages_.find(key);
    if (found != stages_.end()) return found->second;
    const StageRange range = model_.range_of(step.stage_value());
    return stages_.emplace(key, stage_memory(model_.spec, range, model_.shape, ends)).first->second;
  }

  void post(int peer) {
    PeerBuffers& buffers = buffers_[peer];
    buffers.most_in_use = std::max(buffers.most_in_use, ++buffers.in_use);
    buffers.most_posted = std::max(buffers.most_posted, ++buffers.posted);
  }
  void take(int peer) {
    if (is_remote(peer)) --buffers_[peer].posted;
  }
  void release(int peer) {
    if (is_remote(peer)) --buffers_[peer].in_use;
  }

  void apply(const StepMemory& step, MetaStep shown) {
    note(step.peak, shown);
    activations_ += step.change;
  }

  /// Keeps the moment if it is the fullest so far. `extra` is what a step adds while it runs.
  void note(std::int64_t extra, MetaStep shown, bool extra_is_gradients = false) {
    note(extra, extra_is_gradients, [&] { return format_step(steps_, shown); });
  }
  template <class Name>
  void note(std::int64_t extra, bool extra_is_gradients, Name name) {
    std::int64_t unsharded = 0;
    std::int64_t gradients = extra_is_gradients ? extra : 0;
    for (const auto& [stage, held] : held_) {
      unsharded += held.unsharded();
      gradients += held.gradients();
    }
    const std::int64_t activations = activations_ + (extra_is_gradients ? 0 : extra);
    const std::int64_t sum = unsharded + gradients + batch_ + activations;
    if (sum <= peak_) return;
    peak_ = sum;
    memory_.unsharded = unsharded;
    memory_.step_gradients = gradients;
    memory_.batch = batch_;
    memory_.activations = activations;
    memory_.peak_step = name();
  }

  /// Once a step the uses of a tied weight exchange their gradients: TiedWeights::gather.
  void sum_tied_weights() {
    const int last = schedule_.num_stages() - 1;
    if (!model_.spec.tied_head || !(held_.contains(0) || held_.contains(last))) return;
    batch_ = 0;
    activations_ -= std::exchange(batched_, 0);
    const bool is_bidirectional = schedule_.placement.kind() == PlacementKind::kBidirectional;
    const std::int64_t uses_here = held_.contains(0) && held_.contains(last) ? 2 : 1;
    const std::int64_t ranks = uses_here == 2 && !is_bidirectional ? 1 : 2;
    // Both uses on one rank are copied; else each rank packs its own and gathers all.
    const std::int64_t copies = ranks == 1 ? 2 : uses_here + ranks * uses_here;
    const std::int64_t rows = (model_.spec.vocab_size + model_.dp_shard - 1) / model_.dp_shard;
    note(copies * rows * model_.spec.hidden_size * model_.shape.accumulator_bytes(), /*extra_is_gradients=*/true,
         [] { return std::string("sum of tied weights"); });
  }

  const Schedule& schedule_;
  const MemoryModel& model_;
  PipelineRank rank_;
  const RankSteps& steps_;
  StageLinks links_;
  std::int64_t hidden_bytes_;
  std::map<int, HeldState> held_;  ///< by stage
  std::map<std::tuple<int, bool, bool>, StageMemory> stages_;
  StageMemory encoder_;                 ///< what MPipe runs outside of the stages
  std::map<int, PeerBuffers> buffers_;  ///< by pipeline rank
  std::int64_t batch_ = 0;
  std::int64_t activations_ = 0;
  std::int64_t batched_ = 0;  ///< of activations_: sent in a batch that may not be complete
  std::int64_t swapped_ = 0;  ///< taken in the tier
  std::int64_t peak_ = -1;
  RankMemory memory_;
};

std::int64_t bytes_of(const std::string& dtype) { return dtype == "bfloat16" ? 2 : 4; }

}  // namespace

StageRange MemoryModel::range_of(int stage) const {
  return stage_range(spec, layer_counts, stage, activations, experts);
}

MemoryModel memory_model(const JobConfig& job, const ModelSpec& spec, std::vector<int> layer_counts) {
  MemoryModel model;
  model.spec = spec;
  model.activations = layer_activations(job, layer_counts);
  model.layer_counts = std::move(layer_counts);
  model.shape.samples = job.microbatch_size();
  model.shape.sequence = job.data.sequence_length;
  model.shape.element_bytes = bytes_of(job.precision.param.empty() ? job.model.dtype : job.precision.param);
  const Mesh mesh = mesh_of_job(job);
  model.dp_shard = mesh.size(MeshAxis::kDpShard);
  model.experts.count = mesh.size(MeshAxis::kExpert);
  model.expert_shard_count = mesh.size(MeshAxis::kExpertShard);
  model.reduce_bytes = bytes_of(job.precision.reduce);
  model.encoder_recomputes = job.mpipe.backward == "recompute";
  return model;
}

RankMemory plan_rank_memory(const Schedule& schedule, const MemoryModel& model, PipelineRank rank) {
  PPCTL_CHECK_EQ(static_cast<int>(model.layer_counts.size()), schedule.num_stages());
  return RankWalk(schedule, model, rank).run();
}

std::vector<RankMemory> plan_memory(const Schedule& schedule, const MemoryModel& model) {
  std::vector<RankMemory> ranks;
  for (int rank = 0; rank < schedule.pp(); ++rank) {
    ranks.push_back(plan_rank_memory(schedule, model, PipelineRank(rank)));
  }
  return ranks;
}

std::int64_t largest_total(const std::vector<RankMemory>& ranks) {
  std::int64_t most = 0;
  for (const RankMemory& rank : ranks) most = std::max(most, rank.total());
  return most;
}

}  // namespace ppctl
