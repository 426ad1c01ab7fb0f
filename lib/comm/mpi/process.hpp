#pragma once

#include <sys/types.h>

#include <cstdint>

namespace ppctl {

/// A process, told apart from a later one that got the same pid.
struct ProcessId {
  pid_t pid = 0;
  std::uint64_t start_time = 0;  ///< in clock ticks since boot
};

ProcessId this_process();
/// Whether the process exists and has not ended: one that its parent has yet to reap has.
bool is_alive(const ProcessId& process);
/// Whether the process exists and was stopped, by SIGSTOP, a terminal or a debugger.
bool is_stopped(const ProcessId& process);

}  // namespace ppctl
