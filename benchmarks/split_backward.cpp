// What it costs to compute dx and dw apart: a backward at once beside BACKWARD_INPUT and BACKWARD_WEIGHT, in turns.
//
//   bench_split_backward WORKLOAD [PAIRS]    WORKLOAD: latency, small or medium
//
// One thread, the whole model as one stage, one microbatch. Prints the median of the pairs' ratios (I + W) / B with its
// quartiles, in CPU time of the process, which other programs disturb little, and in wall time. Which of the two comes
// first alternates.

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "heap.hpp"
#include "model/family.hpp"
#include "workloads.hpp"

namespace {

using namespace ppctl;

struct Seconds {
  double cpu = 0;
  double wall = 0;
};

/// The backward of one microbatch, its forward not counted.
Seconds time_backward(StageModule& stage, const Microbatch& microbatch, bool apart) {
  SavedActivations saved;
  LossReport loss;
  WeightGradQueue queue;
  stage.forward(microbatch, {}, saved, &loss);
  const std::clock_t cpu_start = std::clock();
  const Nanoseconds start = monotonic_now();
  queue.begin_microbatch(microbatch.index, apart);
  stage.backward(microbatch, {}, saved, queue);
  queue.end_microbatch();
  if (apart) queue.drain(microbatch.index);
  return {static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC,
          static_cast<double>(monotonic_now() - start) * 1e-9};
}

void print(const char* clock, std::vector<double> ratios) {
  std::sort(ratios.begin(), ratios.end());
  const auto at = [&](double share) { return ratios[static_cast<std::size_t>(share * (ratios.size() - 1))]; };
  std::printf("%-4s (I + W) / B: median %.4f, quartiles %.4f to %.4f, %zu pairs\n", clock, at(0.5), at(0.25), at(0.75),
              ratios.size());
}

void run(const std::string& name, int pairs) {
  at::set_num_threads(1);
  const Workload work = workload(name);
  const ModelSpec spec = parse_model_keys("llama", work.model);
  const auto stage = build_stage(spec, at::kFloat, StageRange::whole(spec), 1);
  initialize(*stage, 1);
  const std::vector<Microbatch> microbatches = random_microbatches(work, spec.vocab_size);
  std::vector<double> cpu;
  std::vector<double> wall;
  constexpr int kWarmup = 3;
  for (int pair = -kWarmup; pair < pairs; ++pair) {
    const Microbatch& microbatch = microbatches[static_cast<std::size_t>(pair + kWarmup) % microbatches.size()];
    const bool apart_first = pair % 2 == 0;
    const Seconds first = time_backward(*stage, microbatch, apart_first);
    const Seconds second = time_backward(*stage, microbatch, !apart_first);
    if (pair < 0) continue;
    cpu.push_back(apart_first ? first.cpu / second.cpu : second.cpu / first.cpu);
    wall.push_back(apart_first ? first.wall / second.wall : second.wall / first.wall);
  }
  std::printf("%s, float32\n", name.c_str());
  print("CPU", std::move(cpu));
  print("wall", std::move(wall));
}

}  // namespace

int main(int argc, char** argv) {
  ppctl::run_on_tuned_heap(argv);  // as ppctl train does
  try {
    if (argc < 2) throw_error("usage: bench_split_backward latency|small|medium [PAIRS]");
    run(argv[1], argc > 2 ? std::max(1, std::atoi(argv[2])) : 60);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
