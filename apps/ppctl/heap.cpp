#include "heap.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace ppctl {
namespace {

constexpr const char* kVariable = "GLIBC_TUNABLES";

// Thresholds of 4 GiB keep all tensors but the largest on the heap; it grows by 64 MiB. There is one heap: those of
// other threads could hold no large tensors, and the second thread of an overlapped pair allocates as much as the
// first.
constexpr const char* kTunables =
    "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=4294967296:"
    "glibc.malloc.top_pad=67108864:glibc.malloc.arena_max=1";

}  // namespace

std::optional<std::string> heap_tunables(const std::string& current) {
  if (current.find("glibc.malloc.") != std::string::npos) return std::nullopt;
  return current.empty() ? kTunables : current + ":" + kTunables;
}

void run_on_tuned_heap(char** argv) {
  const char* current = std::getenv(kVariable);
  const std::optional<std::string> tunables = heap_tunables(current == nullptr ? "" : current);
  if (!tunables) return;
  std::error_code failed;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed || setenv(kVariable, tunables->c_str(), 1) != 0) return;
  execv(program.c_str(), argv);
}

}  // namespace ppctl
