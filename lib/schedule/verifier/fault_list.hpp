#pragma once

#include <string>
#include <utility>
#include <vector>

#include "schedule/text.hpp"
#include "schedule/verify.hpp"

namespace ppctl {

/// Collects faults up to a limit, so that a schedule that is wrong everywhere gives a readable answer.
class FaultList {
 public:
  static constexpr std::size_t kMaxFaults = 20;

  explicit FaultList(const Schedule& schedule) : schedule_(schedule) {}

  void add(int rank, std::size_t step_number, std::string reason) {
    if (full()) return;
    const RankSteps& steps = schedule_.ranks[static_cast<std::size_t>(rank)];
    const MetaStep step = steps.steps[step_number];
    faults_.push_back(
        {PipelineRank(rank), static_cast<int>(step_number), step, format_step(steps, step), std::move(reason)});
  }
  void add(ScheduleFault fault) {
    if (!full()) faults_.push_back(std::move(fault));
  }
  /// A fault of the rank as a whole: something is missing that would be `step`.
  void add_missing(int rank, MetaStep step, std::string reason) {
    if (!full()) faults_.push_back({PipelineRank(rank), -1, step, "", std::move(reason)});
  }

  bool full() const { return faults_.size() >= kMaxFaults; }
  bool empty() const { return faults_.empty(); }
  std::vector<ScheduleFault> take() { return std::move(faults_); }

 private:
  const Schedule& schedule_;
  std::vector<ScheduleFault> faults_;
};

}  // namespace ppctl
