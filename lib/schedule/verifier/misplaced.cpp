#include "schedule/verifier/misplaced.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "schedule/links.hpp"
#include "schedule/text.hpp"

namespace ppctl {
namespace {

/// MPipe's steps run on any rank, on behalf of the stage that consumes the features.
constexpr bool is_bound_to_its_rank(MetaStepType type) { return type < MetaStepType::LOAD_DATA; }
constexpr bool has_microbatch(MetaStepType type) {
  return type != MetaStepType::UNSHARD && type != MetaStepType::RESHARD && type != MetaStepType::REDUCE_GRAD;
}

/// Whether a composite's sub-steps are in the rank's table, and none is a composite.
bool has_sub_steps(const RankSteps& rank, MetaStep step) {
  const std::size_t end = std::size_t{step.sub_index()} + static_cast<std::size_t>(step.sub_count());
  if (step.sub_count() == 0 || end > rank.sub_steps.size()) return false;
  return std::ranges::none_of(rank.sub_steps_of(step), [](MetaStep part) { return is_composite(part.type()); });
}

std::optional<ScheduleFault> whole_fault(std::string reason) {
  return ScheduleFault{PipelineRank(), -1, MetaStep(), "", std::move(reason)};
}

class PlaceChecker {
 public:
  PlaceChecker(const Schedule& schedule, const StageLinks& links) : schedule_(schedule), links_(links) {}

  /// Whether it is a compute step, send or receive that may stand there: nearly all steps, so at the least cost.
  bool is_plainly_right(int rank, MetaStep step) const {
    if (step.type() > MetaStepType::RECV_BACKWARD) return false;
    const int stage = step.stage_value();
    const int microbatch = step.microbatch_value();
    if (!links_.is_on(rank, stage, microbatch)) return false;
    if (is_compute(step.type())) return true;
    const int peer = step.peer().value;
    return peer != rank && peer >= 0 &&
           peer == (is_towards_end(step) ? links_.downstream(stage, microbatch) : links_.upstream(stage, microbatch));
  }

  /// Why this step cannot stand on this rank, or an empty text.
  std::string refuse(int rank, MetaStep step) const {
    if (is_composite(step.type())) return refuse_composite(rank, step);
    return refuse_simple(rank, step);
  }

 private:
  static bool is_towards_end(MetaStep step) {
    return step.type() == MetaStepType::SEND_FORWARD || step.type() == MetaStepType::RECV_BACKWARD;
  }

  std::string refuse_simple(int rank, MetaStep step) const {
    const int stage = step.stage().value;
    const int microbatch = step.microbatch().value;
    if (stage < 0 || stage >= links_.num_stages()) {
      return fmt::format("there is no stage {}; the schedule has stages 0 to {}", stage, links_.num_stages() - 1);
    }
    if (has_microbatch(step.type()) && (microbatch < 0 || microbatch >= links_.num_microbatches())) {
      return fmt::format("there is no microbatch {}; the schedule has microbatches 0 to {}", microbatch,
                         links_.num_microbatches() - 1);
    }
    if (!is_bound_to_its_rank(step.type())) return {};
    if (!has_microbatch(step.type())) {
      if (schedule_.placement.chunk_of(PipelineRank(rank), step.stage()) >= 0) return {};
      return fmt::format("rank {} does not hold stage {}", rank, stage);
    }
    const int owner = links_.owner(stage, microbatch);
    if (owner != rank) {
      return fmt::format("microbatch {} of stage {} belongs to rank {}", microbatch, stage, owner);
    }
    return is_p2p(step.type()) ? refuse_peer(rank, step) : std::string();
  }

  std::string refuse_peer(int rank, MetaStep step) const {
    const bool towards_end = is_towards_end(step);
    const int stage = step.stage().value;
    const int microbatch = step.microbatch().value;
    const int other = towards_end ? links_.downstream(stage, microbatch) : links_.upstream(stage, microbatch);
    if (other < 0) return fmt::format("there is no stage {} stage {}", towards_end ? "after" : "before", stage);
    if (other == rank) {
      return fmt::format("stage {} is on the same rank; tensors pass between them without communication",
                         towards_end ? stage + 1 : stage - 1);
    }
    if (step.peer().value == other) return {};
    const std::string named = step.peer().valid() ? fmt::format("rank {}", step.peer()) : "no peer";
    return fmt::format("it names {}; the other end is rank {}", named, other);
  }

  std::string refuse_composite(int rank, MetaStep step) const {
    const RankSteps& steps = schedule_.ranks[static_cast<std::size_t>(rank)];
    if (!has_sub_steps(steps, step)) return "its sub-steps are not there";
    const auto parts = steps.sub_steps_of(step);
    if (step.type() == MetaStepType::OVERLAP_B_F) {
      const bool is_pair =
          parts.size() == 2 && makes_input_gradient(parts[0].type()) && parts[1].type() == MetaStepType::FORWARD;
      if (!is_pair) return "an OVERLAP_B_F is a backward and then a forward";
    }
    for (const MetaStep part : parts) {
      if (step.type() == MetaStepType::BATCH_SEND_RECV) {
        if (!is_p2p(part.type())) return "a BATCH_SEND_RECV has sends and receives only";
        if (part.peer() != step.peer()) return "a BATCH_SEND_RECV has one peer";
      }
      if (std::string reason = refuse_simple(rank, part); !reason.empty()) return reason;
    }
    return {};
  }

  const Schedule& schedule_;
  const StageLinks& links_;
};

/// Tables are indexed by stage and microbatch, so their size must follow from the steps that are there, not from
/// numbers in a file.
std::optional<ScheduleFault> find_shape_fault(const Schedule& schedule) {
  if (static_cast<int>(schedule.ranks.size()) != schedule.pp()) {
    return whole_fault(
        fmt::format("the schedule has steps of {} ranks, its placement has {}", schedule.ranks.size(), schedule.pp()));
  }
  if (schedule.num_microbatches < 1) return whole_fault("the schedule has no microbatches");
  std::uint64_t num_steps = 0;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const RankSteps& steps = schedule.ranks[rank];
    if (steps.steps.size() > std::numeric_limits<std::int32_t>::max()) {
      return whole_fault(fmt::format("rank {} has {} steps, more than a rank can have", rank, steps.steps.size()));
    }
    num_steps += steps.steps.size() + steps.sub_steps.size();
  }
  const std::uint64_t num_chunks =
      static_cast<std::uint64_t>(schedule.num_stages()) * static_cast<std::uint64_t>(schedule.num_microbatches);
  if (num_chunks > std::numeric_limits<std::int32_t>::max()) {
    return whole_fault(fmt::format("{} stages with {} microbatches are more than a schedule can have",
                                   schedule.num_stages(), schedule.num_microbatches));
  }
  if (num_steps < 2 * num_chunks) {
    return whole_fault(fmt::format("{} stages with {} microbatches take at least {} steps, there are {}",
                                   schedule.num_stages(), schedule.num_microbatches, 2 * num_chunks, num_steps));
  }
  return std::nullopt;
}

}  // namespace

std::optional<ScheduleFault> find_misplaced_step(const Schedule& schedule) {
  if (auto fault = find_shape_fault(schedule)) return fault;
  const StageLinks links(schedule);
  const PlaceChecker checker(schedule, links);
  for (int rank = 0; rank < schedule.pp(); ++rank) {
    const std::vector<MetaStep>& steps = schedule.ranks[static_cast<std::size_t>(rank)].steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (checker.is_plainly_right(rank, steps[i])) continue;
      if (std::string reason = checker.refuse(rank, steps[i]); !reason.empty()) {
        return ScheduleFault{PipelineRank(rank), static_cast<int>(i), steps[i],
                             safe_step_text(schedule.ranks[static_cast<std::size_t>(rank)], steps[i]),
                             std::move(reason)};
      }
    }
  }
  return std::nullopt;
}

std::string safe_step_text(const RankSteps& rank, MetaStep step) {
  if (!is_composite(step.type())) return format_step(step);
  return has_sub_steps(rank, step) ? format_step(rank, step) : std::string(to_string(step.type()));
}

}  // namespace ppctl
