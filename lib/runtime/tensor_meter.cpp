#include "runtime/tensor_meter.hpp"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <atomic>

namespace ppctl {

struct TensorMeter::Listener : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
    const std::int64_t now = live.fetch_add(size) + size;
    std::int64_t seen = peak.load();
    while (seen < now && !peak.compare_exchange_weak(seen, now)) {
    }
  }
  bool memoryProfilingEnabled() const override { return true; }

  // Of two threads inside of an overlapped pair.
  std::atomic<std::int64_t> live{0};
  std::atomic<std::int64_t> peak{0};
};

struct TensorMeter::Guard {
  explicit Guard(const std::shared_ptr<Listener>& listener) : listening(c10::DebugInfoKind::PROFILER_STATE, listener) {}
  c10::DebugInfoGuard listening;
};

TensorMeter::TensorMeter() : listener_(std::make_shared<Listener>()), guard_(std::make_unique<Guard>(listener_)) {}
TensorMeter::~TensorMeter() = default;

std::int64_t TensorMeter::live_bytes() const { return listener_->live; }
std::int64_t TensorMeter::peak_bytes() const { return listener_->peak; }
void TensorMeter::reset_peak() { listener_->peak = listener_->live.load(); }

}  // namespace ppctl
