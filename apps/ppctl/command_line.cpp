#include "command_line.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/did_you_mean.hpp"
#include "base/error.hpp"
#include "commands.hpp"
#include "errors.hpp"
#include "launcher.hpp"

namespace ppctl {
namespace {

std::string shell_quoted(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                          "_-./=:,+%@") == std::string::npos;
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string join_command_line(int argc, char** argv) {
  std::string line;
  for (int i = 0; i < argc; ++i) {
    if (i > 0) line += ' ';
    line += shell_quoted(argv[i]);
  }
  return line;
}

/// The command that was being parsed: the subcommand where one was named.
CLI::App* innermost(CLI::App& app) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  return parsed.empty() ? &app : innermost(*parsed.front());
}

/// The command as it is typed: "ppctl bench bubbles".
std::string name_of(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : name_of(*parent) + " " + command.get_name();
}

/// What was probably meant by a word that no command or option has.
std::string suggest(CLI::App& app, const std::string& word) {
  CLI::App& at = *innermost(app);
  std::vector<std::string> names;
  if (word.starts_with("-")) {
    for (const CLI::Option* option : at.get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  } else {
    for (const CLI::App* sub : at.get_subcommands([](CLI::App*) { return true; })) names.push_back(sub->get_name());
  }
  return did_you_mean(word.substr(0, word.find('=')), std::vector<std::string_view>(names.begin(), names.end()));
}

std::string usage_error(CLI::App& app, const CLI::ParseError& error) {
  const std::string help = name_of(*innermost(app)) + " --help lists what there is.";
  const std::vector<std::string> left = app.remaining(true);
  // An unknown word often makes a required one missing: speak of the cause.
  const bool missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if ((missing || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) && !left.empty()) {
    return fmt::format("unknown argument '{}'{}\n{}", left.front(), suggest(app, left.front()), help);
  }
  if (missing && innermost(app) == &app) {
    return fmt::format("no command was given\n{}", help);
  }
  return fmt::format("{}\n{}", error.what(), help);
}

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

}  // namespace

std::string yaml_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') quoted += '\'';
    quoted += c;
  }
  return quoted + "'";
}

int run_command_line(int argc, char** argv) {
  CLI::App app("ppctl trains a model in a pipeline of stages.", "ppctl");
  app.set_version_flag("--version", "ppctl " PPCTL_VERSION);
  app.require_subcommand(1);
  ChosenCommand chosen;
  chosen.command_line = join_command_line(argc, argv);
  add_train_command(app, chosen);
  add_plan_command(app, chosen);
  add_bench_command(app, chosen);
  add_export_command(app, chosen);

  const Launch launch = detect_launch();
  const bool silent = launch.rank != 0;
  const auto parse_and_run = [&] {
    try {
      app.parse(argc, argv);
    } catch (const CLI::CallForVersion&) {
      if (!silent) print(app.version() + "\n");
      return kExitOk;
    } catch (const CLI::CallForHelp&) {
      if (!silent) print(app.help());
      return kExitOk;
    } catch (const CLI::ParseError& error) {
      throw_error("{}", usage_error(app, error));
    }
    return report_errors(chosen.exit_code_of_error, silent, chosen.run);
  };
  return report_errors(kExitUsage, silent, parse_and_run);
}

}  // namespace ppctl
