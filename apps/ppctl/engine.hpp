#pragma once

#include <map>
#include <string>
#include <vector>

namespace ppctl {

/// What the front asks of the engine: libppctl_engine.so, which holds everything that needs LibTorch.
struct EngineRequest {
  std::string command;      ///< "train", ...
  std::string config_file;  ///< the job file; empty where a command has none
  std::vector<std::string>
      sets;  ///< "a.b=value", in the order in which they apply; --log-json and --steps are among them
  std::map<std::string, std::string>
      options;  ///< of commands that have options beyond the job's, by name without the dashes
};

}  // namespace ppctl

/// The engine's one entry. The front has read the job already and found no fault with it. Returns the exit code of the
/// process. Lets no exception out: it reports errors as the front does (see errors.hpp).
///
/// COLLECTIVE: every rank of the job.
extern "C" __attribute__((visibility("default"))) int ppctl_engine_main(const ppctl::EngineRequest* request);
