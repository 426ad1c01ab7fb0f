#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
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

/// The problems of a job. what() has, for each, file:line:column, the source line, a caret, the rule, and what was
/// probably meant (or
/// `--set key=value:` and the rule). position() is the first problem's.
class ConfigError : public Error {
 public:
  ConfigError(FilePosition position, int num_problems, const std::string& text)
      : Error(text, std::move(position)), num_problems_(num_problems) {}

  int num_problems() const { return num_problems_; }

 private:
  int num_problems_;
};

/// What is to be known about schedules to judge a job's `pipeline` section. Schedules are no part of this layer;
/// whoever knows them fills this in. Without `names`, any name of a schedule is taken and what depends on it is not
/// judged.
struct ScheduleRules {
  std::vector<std::string> names;
  /// Stages of the model under this job's schedule, pp and chunks, or nothing where that is open (a schedule from a
  /// file).
  std::function<std::optional<int>(const JobConfig&)> num_stages;
  /// Nothing, or why this job's schedule cannot be generated: one line.
  std::function<std::optional<std::string>(const JobConfig&)> refuse;
};

/// What a job is read for. A plan may be of a job that is not complete yet.
enum class JobUse { kPlan, kTrain };

/// Reads a job file and applies `sets` ("a.b=value", from the command line) on top. Reports every problem at once:
/// throws ConfigError. Throws Error where the file cannot be read.
LoadedConfig load_config(const std::string& file, const std::vector<std::string>& sets = {},
                         const ScheduleRules& schedules = {}, JobUse use = JobUse::kPlan);
/// The same from text; `file` is what messages say and what relative paths are relative to.
LoadedConfig parse_config(const std::string& text, const std::string& file, const std::vector<std::string>& sets = {},
                          const ScheduleRules& schedules = {}, JobUse use = JobUse::kPlan);

/// The table of values and origins as aligned text.
std::string show_config(const LoadedConfig& config);

}  // namespace ppctl
