#include "runtime/timed_module.hpp"

#include <sys/prctl.h>
#include <time.h>

#include <cerrno>

namespace ppctl {
namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;
constexpr Nanoseconds kLeastPolled = 10'000;
/// A wake-up that is later than this was held up by other work: no lesson for the next one.
constexpr Nanoseconds kMostLate = 300'000;

}  // namespace

void PreciseSleeper::sleep_until(Nanoseconds until) {
  const Nanoseconds wake = until - lateness_ - kLeastPolled;
  if (wake > monotonic_now()) {
    // The kernel may add the thread's timer slack, 50 us unless told otherwise.
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    timespec at{};  // std::chrono::steady_clock is CLOCK_MONOTONIC
    at.tv_sec = wake / kSecond;
    at.tv_nsec = wake % kSecond;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) == EINTR) {
    }
    const Nanoseconds late = monotonic_now() - wake;
    // Quick to learn that wake-ups are late, slow to forget it: being early costs a little polling, being late is an
    // error.
    if (late < kMostLate) lateness_ += late > lateness_ ? (late - lateness_) / 2 : (late - lateness_) / 16;
  }
  while (monotonic_now() < until) {
  }
}

TimedModule::TimedModule(StageTimes times, bool is_last, std::int64_t elements)
    : times_(times), is_last_(is_last), tensor_(at::zeros({elements}, at::kFloat)) {}

TensorList TimedModule::forward(const Microbatch& microbatch, TensorList /*inputs*/, SavedActivations& saved,
                                LossReport* loss) {
  sleeper_.sleep_ms(times_.forward_ms);
  if (microbatch.training) {
    saved.push(tensor_);
    saved.push(at::empty({times_.activation_bytes}, at::kByte));
    saved.swapped.push_back({1, 2});
  }
  if (loss != nullptr) loss->num_labels = 1;
  return is_last_ ? TensorList{} : TensorList{tensor_};
}

TensorList TimedModule::backward(const Microbatch& /*microbatch*/, TensorList /*output_grads*/, SavedActivations& saved,
                                 WeightGradQueue& queue) {
  saved.tensors.clear();
  if (queue.defers()) {
    sleeper_.sleep_ms(times_.dx_ms);
    queue.add([this] { sleeper_.sleep_ms(times_.dw_ms); });
  } else {
    sleeper_.sleep_ms(times_.dx_ms + times_.dw_ms);
  }
  return {tensor_};
}

}  // namespace ppctl
