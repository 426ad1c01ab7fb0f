#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/job_config.hpp"

namespace ppctl {

/// Where a value came from.
struct ConfigOrigin {
  enum class Kind { kDefault, kFile, kCommandLine } kind = Kind::kDefault;
  std::string file;  ///< kFile
  int line = 0;
};

/// One value of the job for --show-config: "pipeline.schedule", "1f1b", its origin.
struct ConfigValue {
  std::string key;
  std::string value;
  ConfigOrigin origin;
};

struct LoadedConfig {
  JobConfig job;
  std::vector<ConfigValue> values;  ///< every key, in the order of the documentation
};

/// Reads a job file and applies `sets` ("a.b=value", from the command line) on top. Reports every problem of the file at once: throws
/// Error whose text has, for each, file:line:column, the source line, a caret, the rule, and what was probably meant.
LoadedConfig load_config(const std::string& file, const std::vector<std::string>& sets = {});
/// The same from text; `file` is what messages say.
LoadedConfig parse_config(const std::string& text, const std::string& file, const std::vector<std::string>& sets = {});

/// The table of values and origins as aligned text.
std::string show_config(const LoadedConfig& config);

}  // namespace ppctl
