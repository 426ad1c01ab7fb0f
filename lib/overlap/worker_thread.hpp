#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace ppctl {

/// A thread that runs one job after the other and sleeps in between: starting a thread for every overlapped pair would
/// cost more than some pairs take, and lose what libraries keep for each thread. For one owner.
class WorkerThread {
 public:
  WorkerThread();
  ~WorkerThread();
  WorkerThread(const WorkerThread&) = delete;
  WorkerThread& operator=(const WorkerThread&) = delete;

  /// REQUIRES: the last job is done, and `job` throws nothing.
  void start(std::function<void()> job);
  /// Blocks until the job is done. Without a deadline: a job uses its owner's memory, so the owner cannot go on without
  /// it; the waits inside of the job have theirs.
  void wait();

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;  ///< empty: none to do
  bool stop_ = false;
  std::thread thread_;  ///< last: it uses what is above
};

}  // namespace ppctl
