#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ppctl {

/// What the command line came to: the command that the user chose, with its options inside. Empty until a command is
/// parsed.
struct ChosenCommand {
  std::function<int()> run;  ///< returns the exit code; throws Error
  int exit_code_of_error = 2;
  std::string command_line;  ///< as it was typed, for messages
};

/// Each adds a subcommand: its options, and a callback that sets `chosen`. One file a command.
void add_train_command(CLI::App& app, ChosenCommand& chosen);
void add_plan_command(CLI::App& app, ChosenCommand& chosen);
void add_bench_command(CLI::App& app, ChosenCommand& chosen);
void add_export_command(CLI::App& app, ChosenCommand& chosen);

/// `text` as a YAML scalar, for a `--set` made from another option.
std::string yaml_quoted(const std::string& text);

}  // namespace ppctl
