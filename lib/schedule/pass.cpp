#include "schedule/pass.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "schedule/passes/passes.hpp"
#include "schedule/verifier/misplaced.hpp"

namespace ppctl {
namespace {

bool has_composites(const Schedule& schedule) {
  return std::ranges::any_of(schedule.ranks, [](const RankSteps& rank) { return !rank.sub_steps.empty(); });
}

// A pass may rely on everything that stands above it, and must leave what stands below it able to work. MPipe's steps
// stand between the beats, behind all communication: what the passes before it have grouped stays grouped.
constexpr auto kPasses = std::to_array<PassInfo>({
    {"split_backward", "splits each backward into dx and dw, and defers dw into the bubbles",
     "whole backwards everywhere",
     "the order of forwards and of dx; of each stage's dw; no rank's peak above the highest peak of any rank before",
     [](const Schedule&, const PassOptions& options) { return options.split_backward; }, apply_split_backward},
    {"sequential_b_f", "runs the overlapped pairs of a schedule that has its own one after the other", "",
     "the order: backward, then forward",
     [](const Schedule& schedule, const PassOptions& options) {
       return !options.overlap_b_f && has_composites(schedule);
     },
     apply_sequential_b_f},
    {"overlap_b_f", "makes each backward and the forward right after it one overlapped pair",
     "whole backwards followed directly by forwards; or a schedule that has pairs of its own, which stays as it is",
     "the order of all compute; a rank's peak grows by at most one chunk",
     [](const Schedule&, const PassOptions& options) { return options.overlap_b_f; }, apply_overlap_b_f},
    {"communication", "adds the sends and receives between ranks", "compute steps only",
     "the order of all compute; on each ordered pair of ranks and kind of tensor, receives are posted in the order of "
     "the sends",
     [](const Schedule&, const PassOptions&) { return true; }, apply_communication},
    {"overlap_p2p", "posts each receive one beat ahead of its consumer", "communication",
     "the order of all compute, of all sends and of all receives",
     [](const Schedule&, const PassOptions& options) { return options.overlap_p2p; }, apply_overlap_p2p},
    {"duplex", "groups what one beat sends to and receives from one peer into one call", "communication",
     "the order of all compute, and of each kind of message between two ranks; no receive waits longer than without it",
     [](const Schedule&, const PassOptions& options) { return options.duplex; }, apply_duplex},
    {"mpipe", "puts the encoder's work, on every rank for its own microbatches, and its transfers between the beats",
     "communication; a stage that takes the features", "all steps and their order",
     [](const Schedule&, const PassOptions& options) { return options.mpipe.enabled; }, apply_mpipe},
    {"fsdp", "gathers parameters ahead of their use, frees them and reduces gradients", "unshard_lookahead >= 1",
     "all steps and their order", [](const Schedule&, const PassOptions& options) { return options.fsdp; }, apply_fsdp},
    {"swap", "moves activations that are not needed for a while out of memory and back", "swap_distance >= 3",
     "all steps and their order", [](const Schedule&, const PassOptions& options) { return options.swap; }, apply_swap},
});

void check_compute_only(const Schedule& schedule) {
  if (const auto fault = find_misplaced_step(schedule)) throw_error("schedule {}: {}", schedule.name, fault->text());
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const auto& steps = schedule.ranks[rank].steps;
    const auto other = std::ranges::find_if_not(
        steps, [](MetaStep step) { return is_compute(step.type()) || step.type() == MetaStepType::OVERLAP_B_F; });
    if (other == steps.end()) continue;
    throw_error(
        "schedule {}: rank {}, step {} is {}; passes lower a schedule of compute steps only, and this one is lowered "
        "already",
        schedule.name, rank, other - steps.begin(), to_string(other->type()));
  }
}

}  // namespace

std::span<const PassInfo> passes() { return kPasses; }

void lower_schedule(Schedule& schedule, const PassOptions& options) {
  check_compute_only(schedule);
  for (const PassInfo& pass : kPasses) {
    if (!pass.wanted(schedule, options)) continue;
    pass.apply(schedule, options);
    schedule.passes.emplace_back(pass.name);
  }
}

}  // namespace ppctl
