#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "schedule/links.hpp"
#include "schedule/passes/passes.hpp"

// The next rank downwards waits for dx alone, so dw is put off for as long as that costs no memory that the schedule
// had not needed anyway: a rank may keep as many activations as the highest peak of any rank. Ranks after the first
// warm up less and so can put off more, which is where the drain has bubbles; once a rank has no forwards left, each dx
// is followed by one dw, in the time in which the next gradient is under way. For 1f1b this is ZB-H1 of the zero-bubble
// paper (arXiv 2401.10241): bubble (p - 1)(F + I - W).

namespace ppctl {
namespace {

void check_whole_backwards(const Schedule& schedule) {
  for (const RankSteps& rank : schedule.ranks) {
    for (const MetaStep step : rank.steps) {
      if (step.type() == MetaStepType::FORWARD || step.type() == MetaStepType::BACKWARD) continue;
      throw_error("split_backward: schedule {} splits or overlaps backwards itself", schedule.name);
    }
  }
}

int peak_chunks(const RankSteps& rank) {
  int alive = 0;
  int peak = 0;
  for (const MetaStep step : rank.steps) {
    alive += step.type() == MetaStepType::FORWARD ? 1 : -1;
    peak = std::max(peak, alive);
  }
  return peak;
}

std::vector<MetaStep> split_rank(const RankSteps& rank, int memory_limit) {
  std::vector<MetaStep> out;
  std::vector<MetaStep> deferred;
  std::size_t next_deferred = 0;
  auto forwards_left =
      std::ranges::count_if(rank.steps, [](MetaStep step) { return step.type() == MetaStepType::FORWARD; });
  out.reserve(2 * rank.steps.size() - static_cast<std::size_t>(forwards_left));
  deferred.reserve(rank.steps.size() - static_cast<std::size_t>(forwards_left));
  int alive = 0;
  const auto run_deferred = [&] {
    if (next_deferred == deferred.size()) return;
    out.push_back(deferred[next_deferred++]);
    --alive;
  };
  for (const MetaStep step : rank.steps) {
    if (step.type() == MetaStepType::FORWARD) {
      if (alive >= memory_limit) run_deferred();
      out.push_back(step);
      ++alive;
      --forwards_left;
    } else {
      out.emplace_back(MetaStepType::BACKWARD_INPUT, step.stage(), step.microbatch());
      deferred.emplace_back(MetaStepType::BACKWARD_WEIGHT, step.stage(), step.microbatch());
      if (forwards_left == 0) run_deferred();
    }
  }
  while (next_deferred < deferred.size()) run_deferred();
  return out;
}

}  // namespace

void apply_split_backward(Schedule& schedule, const PassOptions& /*options*/) {
  check_whole_backwards(schedule);
  int memory_limit = 0;
  for (const RankSteps& rank : schedule.ranks) memory_limit = std::max(memory_limit, peak_chunks(rank));
  for (RankSteps& rank : schedule.ranks) rank.steps = split_rank(rank, memory_limit);
}

}  // namespace ppctl
