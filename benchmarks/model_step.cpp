// A training step in one process without a pipeline: forward and backward of every microbatch, then AdamW.
//
//   bench_model_step WORKLOAD [STEPS] [DTYPE]    WORKLOAD: latency, small or medium; DTYPE: float32 or bfloat16
//
// One thread; medians over the steps after two warm-up steps. cpu_s is what to compare where other programs take the
// cores.

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

/// AdamW over the flat buffers of all groups, state included.
class Optimizer {
 public:
  explicit Optimizer(StageModule& stage) {
    for (ParameterGroup* group : stage.parameter_groups()) {
      values_.push_back(group->flat_data());
      gradients_.push_back(group->flat_grad());
      first_moments_.push_back(at::zeros_like(values_.back()));
      second_moments_.push_back(at::zeros_like(values_.back()));
      steps_.push_back(at::zeros({}, at::kFloat));
    }
  }
  void step() {
    for (at::Tensor& count : steps_) count.add_(1);
    at::_fused_adamw_(values_, gradients_, first_moments_, second_moments_, {}, steps_, 1e-3, 0.9, 0.999, 0.01, 1e-8,
                      false, false);
  }

 private:
  TensorList values_, gradients_, first_moments_, second_moments_, steps_;
};

double train_step(StageModule& stage, Optimizer& optimizer, const std::vector<Microbatch>& microbatches) {
  const Nanoseconds start = monotonic_now();
  for (ParameterGroup* group : stage.parameter_groups()) group->zero_grad();
  WeightGradQueue queue;
  for (const Microbatch& microbatch : microbatches) {
    SavedActivations saved;
    LossReport loss;
    stage.forward(microbatch, {}, saved, &loss);
    queue.begin_microbatch(microbatch.index, false);
    stage.backward(microbatch, {}, saved, queue);
    queue.end_microbatch();
  }
  optimizer.step();
  return static_cast<double>(monotonic_now() - start) * 1e-9;
}

void run(const std::string& name, int steps, const std::string& dtype) {
  at::set_num_threads(1);
  const Workload work = workload(name);
  const ModelSpec spec = parse_model_keys("llama", work.model);
  const auto stage = build_stage(spec, dtype == "bfloat16" ? at::kBFloat16 : at::kFloat, StageRange::whole(spec), 1);
  initialize(*stage, 1);
  const std::vector<Microbatch> microbatches = random_microbatches(work, spec.vocab_size);
  Optimizer optimizer(*stage);
  std::vector<double> seconds;
  std::vector<double> cpu_seconds;
  for (int i = 0; i < steps + 2; ++i) {
    const std::clock_t cpu_start = std::clock();
    const double time = train_step(*stage, optimizer, microbatches);
    if (i < 2) continue;
    seconds.push_back(time);
    cpu_seconds.push_back(static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC);
  }
  std::sort(seconds.begin(), seconds.end());
  std::sort(cpu_seconds.begin(), cpu_seconds.end());
  std::printf(
      "{\"workload\": \"%s\", \"dtype\": \"%s\", \"steps\": %d, \"step_median_s\": %.5f, \"step_min_s\": %.5f, "
      "\"cpu_s\": %.5f}\n",
      name.c_str(), dtype.c_str(), steps, seconds[seconds.size() / 2], seconds.front(),
      cpu_seconds[cpu_seconds.size() / 2]);
}

}  // namespace

int main(int argc, char** argv) {
  ppctl::run_on_tuned_heap(argv);  // as ppctl train does
  try {
    run(argc > 1 ? argv[1] : "latency", argc > 2 ? std::atoi(argv[2]) : 10, argc > 3 ? argv[3] : "float32");
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "%s\n", fault.what());
    return 1;
  }
  return 0;
}
