#include "schedule/verifier/rank_checker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "schedule/text.hpp"

namespace ppctl {
namespace {

// Flags of (stage, microbatch).
constexpr std::uint16_t kForwardDone = 1;
constexpr std::uint16_t kInputGradientDone = 2;
constexpr std::uint16_t kWeightGradientDone = 4;
constexpr std::uint16_t kForwardReceived = 8;
constexpr std::uint16_t kBackwardReceived = 16;
constexpr std::uint16_t kForwardSent = 32;
constexpr std::uint16_t kBackwardSent = 64;
constexpr std::uint16_t kOffloading = 128;
constexpr std::uint16_t kOffloaded = 256;
constexpr std::uint16_t kLoading = 512;
constexpr std::uint16_t kAway = kOffloading | kOffloaded | kLoading;
constexpr std::uint16_t kDone = kForwardDone | kInputGradientDone | kWeightGradientDone;

struct Requirement {
  std::uint16_t flag;
  MetaStepType type;
};
constexpr std::array<Requirement, 7> kRequirements{{
    {kForwardDone, MetaStepType::FORWARD},
    {kInputGradientDone, MetaStepType::BACKWARD},
    {kWeightGradientDone, MetaStepType::BACKWARD_WEIGHT},
    {kForwardReceived, MetaStepType::RECV_FORWARD},
    {kBackwardReceived, MetaStepType::RECV_BACKWARD},
    {kForwardSent, MetaStepType::SEND_FORWARD},
    {kBackwardSent, MetaStepType::SEND_BACKWARD},
}};

}  // namespace

RankChecker::RankChecker(const Schedule& schedule, const StageLinks& links, const VerifyOptions& options,
                         FaultList& faults)
    : schedule_(schedule),
      links_(links),
      options_(options),
      faults_(faults),
      state_(links.num_keys()),
      stages_(static_cast<std::size_t>(links.num_stages())) {}

void RankChecker::check(int rank) {
  begin(rank);
  const std::vector<MetaStep>& steps = schedule_.ranks[static_cast<std::size_t>(rank)].steps;
  for (step_number_ = 0; step_number_ < steps.size() && !faults_.full(); ++step_number_) {
    check_step(steps[step_number_]);
  }
  end();
}

void RankChecker::begin(int rank) {
  rank_ = rank;
  alive_ = 0;
  peak_ = 0;
  for (const StageId stage : schedule_.placement.stages_of(PipelineRank(rank))) {
    stages_[static_cast<std::size_t>(stage.value)] = {};
    if (options_.fsdp) stages_[static_cast<std::size_t>(stage.value)].parameters = Parameters::kSharded;
  }
}

void RankChecker::end() {
  if (!options_.fsdp) return;
  for (const StageId stage : schedule_.placement.stages_of(PipelineRank(rank_))) {
    const StageState& state = stages_[static_cast<std::size_t>(stage.value)];
    if (state.gradient_pending) {
      faults_.add_missing(rank_, MetaStep(MetaStepType::REDUCE_GRAD, stage),
                          fmt::format("stage {} has no REDUCE_GRAD after its last gradient", stage));
    }
    if (state.parameters == Parameters::kUnsharded) {
      faults_.add_missing(rank_, MetaStep(MetaStepType::RESHARD, stage),
                          fmt::format("stage {} is left unsharded", stage));
    }
  }
}

void RankChecker::check_step(MetaStep step) {
  switch (step.type()) {
    case MetaStepType::FORWARD:
    case MetaStepType::BACKWARD:
    case MetaStepType::BACKWARD_INPUT:
    case MetaStepType::BACKWARD_WEIGHT:
      check_compute(step);
      apply_compute(step);
      return;
    case MetaStepType::OVERLAP_B_F: {
      const auto parts = schedule_.ranks[static_cast<std::size_t>(rank_)].sub_steps_of(step);
      // Both run at once: neither may rely on what the other makes, and the forward's activations come before the
      // backward's go.
      for (const MetaStep part : parts) check_compute(part);
      apply_compute(parts[1]);
      apply_compute(parts[0]);
      return;
    }
    case MetaStepType::SEND_FORWARD:
    case MetaStepType::RECV_FORWARD:
    case MetaStepType::SEND_BACKWARD:
    case MetaStepType::RECV_BACKWARD:
      check_p2p(step);
      return;
    case MetaStepType::BATCH_SEND_RECV:
      for (const MetaStep part : schedule_.ranks[static_cast<std::size_t>(rank_)].sub_steps_of(step)) check_p2p(part);
      return;
    case MetaStepType::UNSHARD:
    case MetaStepType::RESHARD:
    case MetaStepType::REDUCE_GRAD:
      check_parameters(step);
      return;
    case MetaStepType::LAUNCH_OFFLOAD:
    case MetaStepType::WAIT_OFFLOAD:
    case MetaStepType::LAUNCH_LOAD:
    case MetaStepType::WAIT_LOAD:
      check_activation(step);
      return;
    default:
      return;  // MPipe's steps are no part of the stages' graph.
  }
}

void RankChecker::check_compute(MetaStep part) {
  const std::uint16_t state = state_of(part);
  switch (part.type()) {
    case MetaStepType::FORWARD:
      if (state & kForwardDone) fault("it is computed a second time");
      check_forward_input(part);
      break;
    case MetaStepType::BACKWARD:
    case MetaStepType::BACKWARD_INPUT:
      if (state & kInputGradientDone) fault("it is computed a second time");
      if (!(state & kForwardDone)) fault("its forward comes later or never");
      check_backward_input(part);
      check_resident(part);
      break;
    default:
      if (state & kWeightGradientDone) fault("it is computed a second time");
      if (!(state & kInputGradientDone)) fault("its BACKWARD_INPUT comes later or never");
      check_resident(part);
  }
  const StageState& stage = stages_[static_cast<std::size_t>(part.stage_value())];
  if (stage.parameters == Parameters::kSharded) fault("its stage's parameters are not unsharded");
}

void RankChecker::check_forward_input(MetaStep part) {
  const int from = links_.upstream(part.stage_value(), part.microbatch_value());
  if (from < 0) return;
  if (from == rank_) {
    const std::size_t key = links_.key(part.stage_value() - 1, part.microbatch_value());
    if (!(state_[key] & kForwardDone)) fault("the stage before, on the same rank, computes it later or never");
  } else if (options_.communication && !(state_of(part) & kForwardReceived)) {
    fault(fmt::format("its input from rank {} is received later or never", from));
  }
}

void RankChecker::check_backward_input(MetaStep part) {
  const int from = links_.downstream(part.stage_value(), part.microbatch_value());
  if (from < 0) return;
  if (from == rank_) {
    const std::size_t key = links_.key(part.stage_value() + 1, part.microbatch_value());
    if (!(state_[key] & kInputGradientDone)) fault("the stage after, on the same rank, computes it later or never");
  } else if (options_.communication && !(state_of(part) & kBackwardReceived)) {
    fault(fmt::format("its gradient from rank {} is received later or never", from));
  }
}

void RankChecker::check_resident(MetaStep part) {
  const std::uint16_t state = state_of(part);
  if (!(state & kAway)) return;
  fault(state & kLoading ? "its activations are still being loaded" : "its activations are offloaded");
}

void RankChecker::apply_compute(MetaStep part) {
  std::uint16_t& state = state_of(part);
  const int microbatch = part.microbatch_value();
  StageState& stage = stages_[static_cast<std::size_t>(part.stage_value())];
  if (part.type() == MetaStepType::FORWARD) {
    state |= kForwardDone;
    add_alive(1);
    return;
  }
  if (part.type() != MetaStepType::BACKWARD_WEIGHT) {
    state |= kInputGradientDone;
    backward_in_order_ &= microbatch > stage.last_input_gradient;
    stage.last_input_gradient = microbatch;
  }
  // Operations that do not defer their weight gradient make it in BACKWARD_INPUT already.
  stage.gradient_pending = true;
  if (part.type() != MetaStepType::BACKWARD_INPUT) {
    state |= kWeightGradientDone;
    backward_in_order_ &= microbatch > stage.last_weight_gradient;
    stage.last_weight_gradient = microbatch;
    add_alive(-1);
  }
}

void RankChecker::check_p2p(MetaStep part) {
  if (!options_.communication) {
    fault("a schedule of compute steps only has no communication");
    return;
  }
  std::uint16_t& state = state_of(part);
  std::uint16_t done = 0;
  switch (part.type()) {
    case MetaStepType::SEND_FORWARD:
      done = kForwardSent;
      if (!(state & kForwardDone)) fault("what it sends is computed later or never");
      break;
    case MetaStepType::SEND_BACKWARD:
      done = kBackwardSent;
      if (!(state & kInputGradientDone)) fault("what it sends is computed later or never");
      break;
    case MetaStepType::RECV_FORWARD:
      done = kForwardReceived;
      break;
    default:
      done = kBackwardReceived;
  }
  if (state & done) {
    const bool sends = done == kForwardSent || done == kBackwardSent;
    fault(sends ? "it is sent a second time" : "it is received a second time");
  }
  state |= done;
}

void RankChecker::check_parameters(MetaStep step) {
  StageState& stage = stages_[static_cast<std::size_t>(step.stage_value())];
  switch (step.type()) {
    case MetaStepType::UNSHARD:
      if (stage.parameters == Parameters::kUnsharded) fault("its stage is unsharded already");
      stage.parameters = Parameters::kUnsharded;
      return;
    case MetaStepType::RESHARD:
      if (stage.parameters != Parameters::kUnsharded) fault("its stage is not unsharded");
      stage.parameters = Parameters::kSharded;
      return;
    default:
      if (!stage.gradient_pending) fault("its stage has no gradient that is not reduced");
      stage.gradient_pending = false;
  }
}

void RankChecker::check_activation(MetaStep step) {
  std::uint16_t& state = state_of(step);
  const auto move = [&](std::uint16_t from, std::uint16_t to, const char* reason) {
    if ((state & kAway) != from) fault(reason);
    state = static_cast<std::uint16_t>((state & ~kAway) | to);
  };
  switch (step.type()) {
    case MetaStepType::LAUNCH_OFFLOAD:
      if (!(state & kForwardDone) || (state & kWeightGradientDone)) fault("there are no activations to offload");
      move(0, kOffloading, "its activations are offloaded already");
      return;
    case MetaStepType::WAIT_OFFLOAD:
      move(kOffloading, kOffloaded, "no offload is under way");
      add_alive(-1);
      return;
    case MetaStepType::LAUNCH_LOAD:
      move(kOffloaded, kLoading, "its activations are not offloaded");
      add_alive(1);
      return;
    default:
      move(kLoading, 0, "no load is under way");
  }
}

void RankChecker::check_complete() {
  for (int stage = 0; stage < links_.num_stages() && !faults_.full(); ++stage) {
    for (int microbatch = 0; microbatch < links_.num_microbatches() && !faults_.full(); ++microbatch) {
      const int owner = links_.owner(stage, microbatch);
      const int from = links_.upstream(stage, microbatch);
      const int to = links_.downstream(stage, microbatch);
      std::uint16_t expected = kDone;
      if (options_.communication && from >= 0 && from != owner) expected |= kForwardReceived | kBackwardSent;
      if (options_.communication && to >= 0 && to != owner) expected |= kBackwardReceived | kForwardSent;
      const std::uint16_t state = state_[links_.key(stage, microbatch)];
      if (state == expected) continue;
      // Without its dx, a missing dw says nothing new.
      if (!(state & kInputGradientDone)) expected = static_cast<std::uint16_t>(expected & ~kWeightGradientDone);
      for (const auto& [flag, type] : kRequirements) {
        if ((expected & flag) == 0 || (state & flag) != 0) continue;
        const MetaStep missing(type, StageId(stage), MicrobatchId(microbatch));
        faults_.add_missing(owner, missing, fmt::format("{} is missing", format_step(missing)));
      }
      if (state & kAway) {
        const MetaStep missing(MetaStepType::WAIT_LOAD, StageId(stage), MicrobatchId(microbatch));
        faults_.add_missing(owner, missing,
                            fmt::format("stage {}, microbatch {} ends away from memory", stage, microbatch));
      }
    }
  }
}

void RankChecker::add_alive(int change) {
  alive_ += change;
  peak_ = std::max(peak_, alive_);
}

void RankChecker::fault(std::string reason) { faults_.add(rank_, step_number_, std::move(reason)); }

}  // namespace ppctl
