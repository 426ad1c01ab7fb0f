// What the executor itself takes: stages that do nothing, so that all time is the loop's, the router's and the
// transport's.
#include <algorithm>
#include <cstdio>

#include "comm/inproc.hpp"
#include "runtime/executor.hpp"
#include "runtime/timed_module.hpp"
#include "schedule/generator.hpp"
#include "schedule/pass.hpp"

namespace {

using namespace ppctl;

/// Nanoseconds a MetaStep of rank 0, the best of many training steps.
void measure(const char* name, int pp, int num_microbatches, std::int64_t elements) {
  ScheduleSpec spec;
  spec.name = name;
  spec.pp = pp;
  spec.num_microbatches = num_microbatches;
  Schedule schedule = generate_schedule(spec);
  lower_schedule(schedule, PassOptions());
  run_inproc(pp, [&](Communicator& communicator) {
    const PipelineRank rank(communicator.transport().rank());
    std::vector<int> world;
    for (int r = 0; r < pp; ++r) world.push_back(r);
    std::vector<std::shared_ptr<PipelineStage>> stages;
    for (const StageId stage : schedule.placement.stages_of(rank)) {
      const bool last = stage.value == schedule.num_stages() - 1;
      stages.push_back(std::make_shared<PipelineStage>(std::make_shared<TimedModule>(StageTimes(), last, elements),
                                                       stage.value, schedule.num_stages()));
    }
    Executor executor(schedule, {&communicator.transport(), rank, world}, stages);
    Nanoseconds best = std::numeric_limits<Nanoseconds>::max();
    for (int step = 0; step < 50; ++step) {
      const StepResult& result = executor.run(std::vector<Microbatch>(static_cast<std::size_t>(num_microbatches)));
      best = std::min(best, result.end - result.start);
    }
    if (rank.value != 0) return;
    const std::size_t steps = schedule.ranks[0].steps.size();
    std::printf("%-18s pp %d m %4d, %6lld floats an edge: %6.0f ns a step, %8.1f us in all\n", name, pp,
                num_microbatches, static_cast<long long>(elements),
                static_cast<double>(best) / static_cast<double>(steps), static_cast<double>(best) / 1e3);
  });
}

}  // namespace

int main() {
  measure("1f1b", 1, 1000, 16);
  measure("interleaved_1f1b", 1, 1000, 16);
  measure("1f1b", 2, 200, 2048);
  measure("1f1b", 4, 200, 2048);
}
