#pragma once

#include <functional>

namespace ppctl {

/// Exit codes of ppctl.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  ///< the run failed: a dead rank, a full disk, a bug
inline constexpr int kExitUsage = 2;   ///< the command line or the job is wrong; nothing was started

/// Runs `body` and returns its exit code. What it throws goes to standard error as one block: `ppctl: error: ...`, a
/// job's problems as they are (each begins with file:line:column), a Bug as a bug. An Error gives `exit_code_of_error`,
/// ConfigError kExitUsage, anything else kExitFailed. With `silent` nothing is printed: of the ranks of a job that
/// never began, one speaks.
int report_errors(int exit_code_of_error, bool silent, const std::function<int()>& body);

}  // namespace ppctl
