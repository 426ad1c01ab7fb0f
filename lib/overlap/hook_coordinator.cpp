#include "overlap/hook_coordinator.hpp"

#include <chrono>
#include <utility>

#include "base/error.hpp"

namespace ppctl {

std::string_view to_string(HookRole role) { return role == HookRole::COMM ? "COMM" : "COMPUTE"; }

std::string_view to_string(OverlapSide side) { return side == OverlapSide::kForward ? "forward" : "backward"; }

void HookCoordinator::open() {
  const std::lock_guard lock(mutex_);
  if (open_) throw_error("an overlapped pair begins inside another one; pairs do not nest");
  open_ = true;
  sides_ = {};
  conflict_.reset();
  num_meetings_ = 0;
}

void HookCoordinator::close() {
  const std::lock_guard lock(mutex_);
  open_ = false;
  for (auto& thread : threads_) thread.store(std::thread::id());
}

void HookCoordinator::join(OverlapSide side) {
  threads_[static_cast<std::size_t>(side)].store(std::this_thread::get_id());
}

std::optional<OverlapSide> HookCoordinator::side_of_this_thread() const {
  const std::thread::id me = std::this_thread::get_id();
  for (const OverlapSide side : {OverlapSide::kForward, OverlapSide::kBackward}) {
    if (threads_[static_cast<std::size_t>(side)].load() == me) return side;
  }
  return std::nullopt;
}

std::int64_t HookCoordinator::num_meetings() const {
  const std::lock_guard lock(mutex_);
  return num_meetings_;
}

void HookCoordinator::meet(OverlapSide side, HookRole role, std::string_view hook) {
  std::unique_lock lock(mutex_);
  const Deadline deadline = Deadline::after_seconds(timeout_s_);
  State& me = at(side);
  State& partner = at(other(side));
  me.hook = hook;
  me.role = role;
  const bool ends_launch = std::exchange(me.launching, false);
  if (me.left || partner.left) {
    if (ends_launch) changed_.notify_all();
    return;
  }
  me.arrived = true;
  const std::int64_t before = num_meetings_;
  if (partner.arrived) {
    pair(side);
  } else if (ends_launch) {
    changed_.notify_all();  // The partner may wait for the end of this side's launch.
  }
  wait(lock, side, deadline,
       [&] { return (num_meetings_ != before && (role == HookRole::COMM || !partner.launching)) || partner.left; });
  me.arrived = false;
}

void HookCoordinator::pair(OverlapSide side) {
  State& me = at(side);
  State& partner = at(other(side));
  if (me.role == partner.role) {
    conflict_ = fmt::format("the {} at hook {} meets the {} at hook {}, and both are {}", to_string(side), me.hook,
                            to_string(other(side)), partner.hook, to_string(me.role));
    changed_.notify_all();
    return;
  }
  me.arrived = partner.arrived = false;
  (me.role == HookRole::COMM ? me : partner).launching = true;
  ++num_meetings_;
  // A partner that computes next sleeps on until the launch is over: each wake-up may cost another rank its core.
  if (partner.role == HookRole::COMM) changed_.notify_all();
}

template <class Done>
void HookCoordinator::wait(std::unique_lock<std::mutex>& lock, OverlapSide side, Deadline deadline, Done done) {
  const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(deadline.at)};
  const State& partner = at(other(side));
  const bool in_time =
      changed_.wait_until(lock, until, [&] { return conflict_ || partner.failure.has_value() || done(); });
  if (conflict_) throw Error(*conflict_);
  if (partner.failure) {
    throw_error("the {} ends at hook {}, since the {} failed: {}", to_string(side), at(side).hook,
                to_string(other(side)), *partner.failure);
  }
  if (!in_time) {
    throw_error("the {} waited {:.1f} s at hook {} ({}) for the {}, which {}", to_string(side), timeout_s_,
                at(side).hook, to_string(at(side).role), to_string(other(side)), describe(other(side)));
  }
}

std::string HookCoordinator::describe(OverlapSide side) {
  const State& state = at(side);
  if (state.hook.empty()) return "has come to no hook yet";
  return fmt::format("{} hook {} ({})", state.launching ? "still launches its exchange after" : "was last at",
                     state.hook, to_string(state.role));
}

void HookCoordinator::launched(OverlapSide side) {
  {
    const std::lock_guard lock(mutex_);
    at(side).launching = false;
  }
  changed_.notify_all();
}

void HookCoordinator::leave(OverlapSide side) {
  const std::lock_guard lock(mutex_);
  at(side).launching = false;
  at(side).left = true;
  changed_.notify_all();
}

void HookCoordinator::fail(OverlapSide side, std::string_view reason) {
  const std::lock_guard lock(mutex_);
  at(side).launching = false;
  at(side).failure = reason;
  changed_.notify_all();
}

}  // namespace ppctl
