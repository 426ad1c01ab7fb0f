// Prints the request; fails where the job's sets say so.

#include <cstdio>
#include <cstdlib>

#include "base/error.hpp"
#include "engine.hpp"
#include "errors.hpp"

int ppctl_engine_main(const ppctl::EngineRequest* request) {
  return ppctl::report_errors(ppctl::kExitFailed, false, [&] {
    std::printf("%s %s\n", request->command.c_str(), request->config_file.c_str());
    for (const std::string& set : request->sets) {
      std::printf("set %s\n", set.c_str());
      if (set == "name=broken") ppctl::throw_error("rank 2 died in step 7");
      if (set == "name=heap") std::printf("%s\n", std::getenv("GLIBC_TUNABLES"));
      if (set == "name=bug") throw ppctl::Bug("schedule.cpp:1: check failed");
    }
    return ppctl::kExitOk;
  });
}
