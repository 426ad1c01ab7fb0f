#include "runtime/overlapped_pairs.hpp"

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <c10/util/Exception.h>

#include "base/error.hpp"

namespace ppctl {
namespace {

/// Torch's own errors carry a backtrace, which is nothing for a report of two sides.
void run_without_backtrace(const std::function<void()>& body) {
  try {
    body();
  } catch (const c10::Error& error) {
    throw Error(error.what_without_backtrace());
  }
}

}  // namespace

OverlappedPairs::OverlappedPairs(Transport& transport, double timeout_s)
    : overlap_({timeout_s, [this, &transport](std::string_view reason) {
                  transport.abort(fmt::format("{}: {}", status_, reason));
                }}) {}

void OverlappedPairs::run(StepContext& context) {
  const auto sub_steps = context.sub_steps();
  Exchanges& of_backward = exchanges_[sub_steps[0].stage().value];
  Exchanges& of_forward = exchanges_[sub_steps[1].stage().value];
  if (of_forward.forward == 0 && of_backward.backward == 0) return context.run_default();
  status_ = context.status();
  const at::ThreadLocalState state;
  context.run_pair([&](const auto& backward, const auto& forward) {
    const auto forward_here = [&] {
      const at::ThreadLocalStateGuard guard(state);
      at::init_num_threads();  // A thread that OpenMP has not seen yet takes all cores.
      run_without_backtrace(forward);
    };
    const auto counts = overlap_.run(forward_here, [&] { run_without_backtrace(backward); },
                                     {of_forward.forward, of_backward.backward});
    of_forward.forward = counts.forward;
    of_backward.backward = counts.backward;
  });
}

}  // namespace ppctl
