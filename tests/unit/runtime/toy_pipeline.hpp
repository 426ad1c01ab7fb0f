#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "comm/transport.hpp"
#include "runtime/executor.hpp"
#include "schedule/pass.hpp"

namespace ppctl::toy {

/// What a layer of the toy model is: each is hard for a runtime in its own way.
enum class Layer {
  kDense,         ///< y = tanh(x W + b)
  kTwice,         ///< one weight used twice: y = tanh(tanh(x W) W)
  kFrozen,        ///< as kDense, with a W that is not trained
  kNoParameters,  ///< y = x / 2
  kSkip,          ///< (x, s) -> (tanh(x W + b), s + x): the second tensor travels beside the first
  kForgetful,     ///< as kSkip, but for odd microbatches s is not used, so it gets no gradient
};

/// Whether a step begins on parameters that are not final.
enum class Validation {
  kNone,
  kConfirms,  ///< they were right
  kAbandons,  ///< they were not: what was run before is worth nothing
};

/// A small training job: `layers` over the stages of a schedule, ranks as threads.
struct Job {
  std::string schedule = "1f1b";
  int pp = 1;
  int chunks = 0;
  int num_microbatches = 4;
  std::vector<Layer> layers = std::vector<Layer>(8, Layer::kDense);
  at::ScalarType dtype = at::kDouble;
  int width = 6;
  int steps = 2;
  PassOptions passes;
  bool ragged = false;  ///< microbatch i has i + 1 rows, and one more in each step
  bool two_halves =
      false;  ///< sum the gradients of each half of the microbatches, then add: what a bidirectional pipeline does
  Validation validation = Validation::kNone;
  bool swaps = false;        ///< swap_wrapper() around every layer
  bool two_threads = false;  ///< the halves of an overlapped pair run at once
  double timeout_s = 60;
  /// Called on each rank before the first step.
  std::function<void(Executor&)> customise;
  /// Called on each rank after each step.
  std::function<void(Executor&, const StepResult&)> after_step;
  /// Called on each rank that fails, with what it says.
  std::function<void(int rank, const std::string& text)> on_failure;
};

struct Result {
  std::vector<std::vector<double>> losses;    ///< [step][microbatch]
  std::map<std::string, at::Tensor> grads;    ///< of the last step
  std::map<std::string, at::Tensor> weights;  ///< at the end
  std::vector<int> loss_ranks;                ///< by microbatch: who had its loss in the last step
};

/// Trains with plain SGD.
Result train(const Job& job);
/// The same job on one rank.
Result train_alone(Job job);
/// Fails the test where losses, gradients or weights differ in any bit.
void expect_same_bits(const Result& got, const Result& wanted);

}  // namespace ppctl::toy
