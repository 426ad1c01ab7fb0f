#pragma once

namespace ppctl {

/// The whole program: parses the command line, runs the command, prints what it throws. Returns the exit code.
int run_command_line(int argc, char** argv);

}  // namespace ppctl
