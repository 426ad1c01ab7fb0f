#include "comm/mpi/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

namespace ppctl {
namespace {

struct Stat {
  char state = '?';
  std::uint64_t start_time = 0;
};

/// Reads /proc/PID/stat: "pid (name) state ppid ...", of which the 22nd field is the start time. The name may hold
/// anything, also ')'.
std::optional<Stat> read_stat(pid_t pid) {
  const int file = open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  std::array<char, 1024> buffer;
  const ssize_t size = read(file, buffer.data(), buffer.size() - 1);
  close(file);
  if (size <= 0) return std::nullopt;
  buffer[static_cast<std::size_t>(size)] = '\0';
  const std::string_view text(buffer.data(), static_cast<std::size_t>(size));
  std::size_t at = text.rfind(')');
  if (at == std::string_view::npos || at + 2 >= text.size()) return std::nullopt;
  at += 2;
  Stat stat{.state = text[at]};
  for (int field = 3; field < 22; ++field) {
    at = text.find(' ', at);
    if (at == std::string_view::npos) return std::nullopt;
    ++at;
  }
  stat.start_time = std::strtoull(buffer.data() + at, nullptr, 10);
  return stat;
}

}  // namespace

ProcessId this_process() {
  const pid_t pid = getpid();
  const std::optional<Stat> stat = read_stat(pid);
  return {pid, stat ? stat->start_time : 0};
}

bool is_alive(const ProcessId& process) {
  const std::optional<Stat> stat = read_stat(process.pid);
  return stat && stat->state != 'Z' && stat->state != 'X' && stat->start_time == process.start_time;
}

bool is_stopped(const ProcessId& process) {
  const std::optional<Stat> stat = read_stat(process.pid);
  return stat && (stat->state == 'T' || stat->state == 't') && stat->start_time == process.start_time;
}

}  // namespace ppctl
