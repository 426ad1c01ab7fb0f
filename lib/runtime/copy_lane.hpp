#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>

#include "base/clock.hpp"

namespace ppctl {

/// A thread that copies, one job after the other in the order in which they were given, beside the thread that
/// computes. For one owner.
class CopyLane {
 public:
  using Ticket = std::int64_t;

  CopyLane();
  /// Waits for the job that runs; those that did not begin are dropped.
  ~CopyLane();
  CopyLane(const CopyLane&) = delete;
  CopyLane& operator=(const CopyLane&) = delete;

  /// Does not block. What `job` throws, wait() throws.
  Ticket start(std::function<void()> job);
  /// Blocks until the job is done, once for each. Throws what the job threw, or Error that says `what` took too long.
  void wait(Ticket ticket, Deadline deadline, std::string_view what);

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::map<Ticket, std::exception_ptr> failed_;
  Ticket next_ = 0;  ///< of the next job that is given
  Ticket done_ = 0;  ///< jobs that ended
  bool stop_ = false;
  std::thread thread_;  ///< last: it uses what is above
};

}  // namespace ppctl
