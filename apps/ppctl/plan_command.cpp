#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/error.hpp"
#include "commands.hpp"
#include "config/load.hpp"
#include "job_schedule.hpp"

namespace ppctl {
namespace {

struct PlanOptions {
  std::string config;
  std::vector<std::string> sets;
  bool show_config = false;
};

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

int plan(const PlanOptions& options) {
  const LoadedConfig loaded = load_config(options.config, options.sets, schedule_rules());
  if (options.show_config) print(show_config(loaded));
  return 0;
}

}  // namespace

void add_plan_command(CLI::App& app, ChosenCommand& chosen) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand("plan", "Show the schedule that a job would run, its bubble and its memory");
  command->add_option("--config", options->config, "The job (YAML)")->type_name("FILE");
  command->add_option("--set", options->sets, "Give a key of the job another value; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_flag("--show-config", options->show_config,
                    "Print every key of the job with its value and where that came from");
  command->callback([options, &chosen] { chosen.run = [options] { return plan(*options); }; });
}

}  // namespace ppctl
