#include "runtime/timed_module.hpp"

#include <sys/prctl.h>
#include <time.h>

#include <cerrno>

namespace ppctl {
namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;
/// What is left to polling: about what the kernel takes to wake a thread. More would take the core from others.
constexpr Nanoseconds kPolled = 20'000;

/// The kernel may delay a wake-up by the timer slack of the thread, 50 us unless told otherwise.
void shrink_timer_slack() {
  thread_local const int done = prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  static_cast<void>(done);
}

void take_ms(double ms) { sleep_until_precisely(monotonic_now() + static_cast<Nanoseconds>(ms * 1e6)); }

}  // namespace

void sleep_until_precisely(Nanoseconds until) {
  shrink_timer_slack();
  const Nanoseconds wake = until - kPolled;
  if (wake > monotonic_now()) {
    // std::chrono::steady_clock is CLOCK_MONOTONIC.
    timespec at{};
    at.tv_sec = wake / kSecond;
    at.tv_nsec = wake % kSecond;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) == EINTR) {
    }
  }
  while (monotonic_now() < until) {
  }
}

TimedModule::TimedModule(StageTimes times, bool is_last, std::int64_t elements)
    : times_(times), is_last_(is_last), tensor_(at::zeros({elements}, at::kFloat)) {}

TensorList TimedModule::forward(const Microbatch& microbatch, TensorList /*inputs*/, SavedActivations& saved,
                                LossReport* loss) {
  take_ms(times_.forward_ms);
  if (microbatch.training) saved.push(tensor_);
  if (loss != nullptr) loss->num_labels = 1;
  return is_last_ ? TensorList{} : TensorList{tensor_};
}

TensorList TimedModule::backward(const Microbatch& /*microbatch*/, TensorList /*output_grads*/, SavedActivations& saved,
                                 WeightGradQueue& queue) {
  saved.pop();
  if (queue.defers()) {
    take_ms(times_.dx_ms);
    queue.add([this] { take_ms(times_.dw_ms); });
  } else {
    take_ms(times_.dx_ms + times_.dw_ms);
  }
  return {tensor_};
}

}  // namespace ppctl
