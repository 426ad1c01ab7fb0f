#include "errors.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "base/error.hpp"
#include "config/load.hpp"

namespace ppctl {
namespace {

/// In one write, so that the blocks of several ranks do not mix.
void print_block(bool silent, const std::string& text) {
  if (silent) return;
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

int report_errors(int exit_code_of_error, bool silent, const std::function<int()>& body) {
  try {
    return body();
  } catch (const ConfigError& error) {
    const bool placed = error.position() && error.position()->line > 0;
    print_block(silent, fmt::format("{}{}\n", placed ? "" : "ppctl: error: ", error.what()));
    return kExitUsage;
  } catch (const Error& error) {
    print_block(silent, fmt::format("ppctl: error: {}\n", error.what()));
    return exit_code_of_error;
  } catch (const Bug& bug) {
    print_block(
        silent,
        fmt::format("ppctl: bug: {}\nThis is a fault of ppctl, not of the job. Please report it with the job file.\n",
                    bug.what()));
  } catch (const std::bad_alloc&) {
    print_block(silent, "ppctl: error: out of memory\n");
  } catch (const std::exception& error) {
    print_block(silent, fmt::format("ppctl: error: {}\n", error.what()));
  }
  return kExitFailed;
}

}  // namespace ppctl
