#pragma once

#include <cstdint>
#include <memory>

namespace ppctl {

/// Counts the memory of the tensors that its thread allocates and frees, to the byte, while it lives. A rank computes
/// on one thread, so this is a rank's memory also where ranks are threads of one process; the second thread of an
/// overlapped pair counts too, since it runs with the thread-local state of the first.
///
/// It listens to c10's CPU allocator through thread-local debug information, as torch's profiler does: the allocator
/// asks on every allocation whether somebody listens anyway, so without a meter nothing is added, and no global
/// allocator is replaced. What other threads free is not noticed, nor what was allocated before the meter was made.
class TensorMeter {
 public:
  TensorMeter();
  /// On the thread that made it; meters of a thread end in reverse order.
  ~TensorMeter();
  TensorMeter(const TensorMeter&) = delete;
  TensorMeter& operator=(const TensorMeter&) = delete;

  std::int64_t live_bytes() const;
  /// The most since the meter was made, or since reset_peak().
  std::int64_t peak_bytes() const;
  void reset_peak();

 private:
  struct Listener;
  struct Guard;
  std::shared_ptr<Listener> listener_;
  std::unique_ptr<Guard> guard_;
};

}  // namespace ppctl
