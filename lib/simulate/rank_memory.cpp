#include "simulate/rank_memory.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "arch/job_model.hpp"
#include "arch/stage_memory.hpp"
#include "base/error.hpp"
#include "schedule/links.hpp"
#include "schedule/mpipe_options.hpp"
#include "schedule/pair_transfers.hpp"
#include "schedule/text.hpp"
#include "simulate/encoder_memory.hpp"
#include "simulate/held_state.hpp"
#include "simulate/peer_buffers.hpp"

namespace ppctl {
namespace {

constexpr std::int64_t kIdBytes = 8;

class RankWalk {
 public:
  RankWalk(const Schedule& schedule, const MemoryModel& model, PipelineRank rank)
      : schedule_(schedule),
        model_(model),
        rank_(rank),
        steps_(schedule.ranks[static_cast<std::size_t>(rank.value)]),
        links_(schedule) {
    for (const StageId stage : schedule.placement.stages_of(rank)) {
      held_.emplace(stage.value, HeldState(model, stage.value));
      batch_ += schedule.num_microbatches * batch_bytes(stage.value);
    }
    if (model.loads_by_schedule) encoder_.emplace(schedule, model, rank);
  }

  RankMemory run() {
    for (const auto& [stage, held] : held_) held.add_to(memory_);
    if (encoder_) encoder_->add_to(memory_);
    for (std::size_t i = 0; i < steps_.steps.size(); ++i) {
      const MetaStep step = steps_.steps[i];
      if (step.type() == MetaStepType::BATCH_SEND_RECV) {
        batch_send_recv(step, i);
      } else if (step.type() == MetaStepType::OVERLAP_B_F) {
        find_pair_transfers(steps_, i, early_);
        std::erase_if(early_, [](const PairTransfer& early) { return early.halves == (kBackwardHalf | kForwardHalf); });
        overlapped_pair(step);
      } else {
        walk(step, step);
      }
    }
    if (encoder_) encoder_->end_step(encoder_note("fold of the encoder's gradients"));
    sum_tied_weights();
    memory_.buffers = buffers_.bytes() + (encoder_ ? encoder_->buffer_bytes() : 0);
    return memory_;
  }

 private:
  /// Of a microbatch, at a stage: token ids, labels and pixels are read where they are needed.
  std::int64_t batch_bytes(int stage) const {
    const StageRange range = model_.range_of(stage);
    const std::int64_t tensors = (reads_tokens(model_.spec, range) ? 1 : 0) + (range.has_head ? 1 : 0);
    const std::int64_t pixels =
        reads_images(model_.spec, range) && !model_.loads_by_schedule ? pixel_bytes(model_.spec, model_.shape) : 0;
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
        return post(step);
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
      case MetaStepType::REDUCE_GRAD: {
        const std::int64_t extra = held(step).reduce_grad();
        return note(extra, shown, /*extra_is_gradients=*/true);
      }
      default:
        if (encoder_ && is_preprocess(step.type())) encoder_->run(step, encoder_note(format_step(steps_, shown)));
        return;
    }
  }

  EncoderMemory::Note encoder_note(std::string name) {
    return [this, name = std::move(name)](std::int64_t extra, bool extra_is_gradients) {
      note(extra, extra_is_gradients, [&] { return name; });
    };
  }

  /// A transport has copied what is sent when it returns. What is part of a batch is kept until the batch is complete,
  /// receives included, which the next send finds out.
  void batch_send_recv(MetaStep batch, std::size_t index) {
    activations_ -= std::exchange(batched_, 0);
    const bool is_early = std::ranges::find(early_, index, &PairTransfer::step) != early_.end();
    bool receives = false;
    for (const MetaStep sub : steps_.sub_steps_of(batch)) {
      const bool is_receive = is_receive_step(sub);
      receives = receives || is_receive;
      if (!is_receive) batched_ += sent_bytes(sub);
      if (is_receive && !is_early) post(sub);
    }
    if (!receives) activations_ -= std::exchange(batched_, 0);
  }

  /// A batch that starts when half of the pair in front of it has ended takes its buffers while that of the other
  /// half's input may still be in use.
  void post_early(std::uint8_t half) {
    for (const PairTransfer& transfer : early_) {
      const MetaStep step = steps_.steps[transfer.step];
      if (transfer.halves != half || step.type() != MetaStepType::BATCH_SEND_RECV) continue;
      for (const MetaStep sub : steps_.sub_steps_of(step)) {
        if (is_receive_step(sub)) post(sub);
      }
    }
  }

  static bool is_receive_step(MetaStep step) {
    return step.type() == MetaStepType::RECV_FORWARD || step.type() == MetaStepType::RECV_BACKWARD;
  }

  std::int64_t sent_bytes(MetaStep send) {
    if (send.type() == MetaStepType::SEND_FORWARD) return stage(send).output_bytes;
    return hidden_bytes(model_.spec, model_.range_of(send.stage_value()).first_layer, model_.shape) +
           boundary_aux_bytes(model_.spec, /*gradient=*/true);
  }

  void forward(MetaStep step, MetaStep shown) {
    const StageMemory& memory = stage(step);
    take_input(step);
    apply(memory.forward, shown);
    if (memory.input_held == HeldUntil::kForward) release_input(step);
  }

  void backward(MetaStep step, MetaStep shown) {
    const StageMemory& memory = stage(step);
    const bool whole = step.type() == MetaStepType::BACKWARD;
    if (is_remote(downstream(step))) buffers_.take(downstream(step), boundary(step, true));
    if (whole) held(step).before_weight_grads();
    apply(whole ? memory.backward : memory.backward_input, shown);
    if (memory.input_held == HeldUntil::kBackward) release_input(step);
    if ((whole ? memory.gradient_held : memory.divided_gradient_held) == HeldUntil::kBackward) release_gradient(step);
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
    const auto halves = steps_.sub_steps_of(pair);
    post_early(kForwardHalf);
    walk(halves[0], pair);
    post_early(kBackwardHalf);
    walk(halves[1], pair);
  }

  void backward_weight(MetaStep step, MetaStep shown) {
    const StageMemory& memory = stage(step);
    held(step).before_weight_grads();
    apply(memory.backward_weight, shown);
    if (memory.divided_gradient_held == HeldUntil::kWeight) release_gradient(step);
  }

  /// The first stage gets features, or images, of the rank that loads the microbatch.
  bool is_fed(MetaStep step) const { return step.stage_value() == 0 && encoder_; }
  int upstream(MetaStep step) const {
    if (is_fed(step)) return mpipe_owner(step.microbatch_value(), schedule_.pp(), schedule_.num_microbatches);
    return links_.upstream(step.stage_value(), step.microbatch_value());
  }
  int downstream(MetaStep step) const { return links_.downstream(step.stage_value(), step.microbatch_value()); }
  bool is_remote(int rank) const { return rank >= 0 && rank != rank_.value; }
  HeldState& held(MetaStep step) { return held_.at(step.stage_value()); }

  const StageMemory& stage(MetaStep step) {
    StageEnds ends{is_remote(upstream(step)), is_remote(downstream(step))};
    ends.images_given = is_fed(step) && model_.spec.transposed_layers < 0 && !ends.input_received;
    const auto key = std::make_tuple(step.stage_value(), ends.input_received, ends.gradient_received);
    const auto found = stages_.find(key);
    if (found != stages_.end()) return found->second;
    const StageRange range = model_.range_of(step.stage_value());
    return stages_.emplace(key, stage_memory(model_.spec, range, model_.shape, ends)).first->second;
  }

  void post(MetaStep receive) {
    const bool gradient = receive.type() == MetaStepType::RECV_BACKWARD;
    buffers_.post(receive.peer().value, boundary(receive, gradient), boundary_aux_bytes(model_.spec, false));
  }
  /// Bytes of what comes into a stage, or of the gradient that does.
  std::int64_t boundary(MetaStep step, bool gradient) const {
    const StageRange range = model_.range_of(step.stage_value());
    return hidden_bytes(model_.spec, gradient ? range.last_layer : range.first_layer, model_.shape);
  }
  void take_input(MetaStep forward) {
    if (!is_remote(upstream(forward))) return;
    is_fed(forward) ? encoder_->take(upstream(forward)) : buffers_.take(upstream(forward), boundary(forward, false));
  }
  void release_input(MetaStep step) {
    if (!is_remote(upstream(step))) return;
    is_fed(step) ? encoder_->release(upstream(step)) : buffers_.release(upstream(step), boundary(step, false));
  }
  void release_gradient(MetaStep step) {
    if (is_remote(downstream(step))) buffers_.release(downstream(step), boundary(step, true));
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
    std::int64_t activations = activations_ + (extra_is_gradients ? 0 : extra);
    std::int64_t kept = 0;
    if (encoder_) {
      unsharded += encoder_->unsharded();
      gradients += encoder_->gradients();
      activations += encoder_->activations();
      kept = encoder_->kept_gradients();
    }
    const std::int64_t sum = unsharded + gradients + kept + batch_ + activations;
    if (sum <= peak_) return;
    peak_ = sum;
    memory_.unsharded = unsharded;
    memory_.step_gradients = gradients;
    memory_.encoder_gradients = kept;
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
  std::map<int, HeldState> held_;  ///< by stage
  std::map<std::tuple<int, bool, bool>, StageMemory> stages_;
  std::optional<EncoderMemory> encoder_;  ///< what MPipe runs outside of the stages
  PeerBuffers buffers_;
  std::vector<PairTransfer> early_;  ///< behind the last pair
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
  model.reduces_every_microbatch = job.fsdp.reduce == "microbatch";
  model.loads_by_schedule = job.mpipe.enabled;
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
