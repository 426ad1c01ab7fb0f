#include "runtime/copy_lane.hpp"

#include <chrono>
#include <utility>

#include "base/error.hpp"

namespace ppctl {

CopyLane::CopyLane() : thread_([this] { loop(); }) {}

CopyLane::~CopyLane() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

CopyLane::Ticket CopyLane::start(std::function<void()> job) {
  Ticket ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    ticket = next_++;
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
  return ticket;
}

void CopyLane::wait(Ticket ticket, Deadline deadline, std::string_view what) {
  std::unique_lock lock(mutex_);
  const auto until = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(deadline.at));
  if (!changed_.wait_until(lock, until, [&] { return done_ > ticket; })) {
    throw_error("{} is not over after the time that 'timeout_s' allows", what);
  }
  const auto failed = failed_.find(ticket);
  if (failed == failed_.end()) return;
  const std::exception_ptr cause = failed->second;
  failed_.erase(failed);
  std::rethrow_exception(cause);
}

void CopyLane::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    std::exception_ptr failure;
    try {
      job();
    } catch (...) {
      failure = std::current_exception();
    }
    job = nullptr;
    lock.lock();
    if (failure) failed_.emplace(done_, failure);
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace ppctl
