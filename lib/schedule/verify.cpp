#include "schedule/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "schedule/links.hpp"
#include "schedule/verifier/fault_list.hpp"
#include "schedule/verifier/misplaced.hpp"
#include "schedule/verifier/preprocess.hpp"
#include "schedule/verifier/progress.hpp"
#include "schedule/verifier/rank_checker.hpp"

namespace ppctl {
namespace {

constexpr int kGridSteps = 4;  ///< shown before and after a fault
constexpr std::size_t kGridRanks = 8;

/// The steps of one rank around `centre`, which is marked: "rank 2: ... 15:3F1 [16:3SEND_F1] 17:2F4 ...".
std::string grid_line(const RankSteps& rank, PipelineRank name, int centre) {
  const int num_steps = static_cast<int>(rank.steps.size());
  const int begin = std::max(0, centre - kGridSteps);
  const int end = std::min(num_steps, centre + kGridSteps + 1);
  std::string line = fmt::format("  rank {}:{}", name, begin > 0 ? " ..." : "");
  for (int i = begin; i < end; ++i) {
    const std::string step = safe_step_text(rank, rank.steps[static_cast<std::size_t>(i)]);
    line += i == centre ? fmt::format(" [{}:{}]", i, step) : fmt::format(" {}:{}", i, step);
  }
  return line + (end < num_steps ? " ..." : "");
}

/// The steps around the first fault, and around those of other ranks that were found with it.
std::string grid(const Schedule& schedule, const std::vector<ScheduleFault>& faults) {
  std::string out;
  std::vector<PipelineRank> shown;
  for (const ScheduleFault& fault : faults) {
    if (fault.step_number < 0 || std::ranges::count(shown, fault.rank) > 0 || shown.size() == kGridRanks) continue;
    shown.push_back(fault.rank);
    out += '\n' + grid_line(schedule.ranks[static_cast<std::size_t>(fault.rank.value)], fault.rank, fault.step_number);
  }
  return out;
}

}  // namespace

std::string ScheduleFault::text() const {
  if (!rank.valid()) return reason;
  if (step_number < 0) return fmt::format("rank {}: {}", rank, reason);
  return fmt::format("rank {}, step {} ({}): {}", rank, step_number, step_text, reason);
}

VerifyResult verify_schedule(const Schedule& schedule, const VerifyOptions& options) {
  VerifyResult result;
  if (auto fault = find_misplaced_step(schedule)) {
    result.faults.push_back(*std::move(fault));
    return result;
  }
  const StageLinks links(schedule);
  FaultList faults(schedule);
  {
    RankChecker checker(schedule, links, options, faults);
    for (int rank = 0; rank < schedule.pp(); ++rank) {
      checker.check(rank);
      result.peak_chunks.push_back(checker.peak_chunks());
    }
    if (faults.empty()) checker.check_complete();
    result.backward_in_order = checker.backward_in_order();
  }
  if (faults.empty()) check_progress(schedule, links, options, faults);
  if (faults.empty()) check_preprocess(schedule, links, faults);
  result.faults = faults.take();
  return result;
}

VerifyResult verify_schedule_or_throw(const Schedule& schedule, const VerifyOptions& options) {
  VerifyResult result = verify_schedule(schedule, options);
  if (result.ok()) return result;
  const ScheduleFault& first = result.faults.front();
  const std::string more = result.faults.size() > 1 ? fmt::format(" (and {} more)", result.faults.size() - 1) : "";
  throw Error(
      fmt::format("schedule {} is wrong: {}{}{}", schedule.name, first.text(), more, grid(schedule, result.faults)));
}

}  // namespace ppctl
