#include "comm/affinity.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

namespace ppctl {

int widen_affinity() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const long configured = std::min<long>(sysconf(_SC_NPROCESSORS_CONF), CPU_SETSIZE);
  for (long core = 0; core < configured; ++core) CPU_SET(core, &cores);
  // The kernel takes away what the cpuset does not allow.
  sched_setaffinity(0, sizeof cores, &cores);
  CPU_ZERO(&cores);
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

}  // namespace ppctl
