#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "base/error.hpp"
#include "commands.hpp"
#include "config/load.hpp"
#include "engine_loader.hpp"
#include "job_schedule.hpp"
#include "launcher.hpp"

namespace ppctl {
namespace {

struct TrainOptions {
  std::string config;
  std::vector<std::string> sets;
  std::string log_json;
  std::string steps;
};

int train(const TrainOptions& options, const std::string& command_line) {
  EngineRequest request;
  request.command = "train";
  request.config_file = options.config;
  request.sets = options.sets;
  if (!options.steps.empty()) request.sets.push_back("steps=" + options.steps);
  if (!options.log_json.empty()) request.sets.push_back("log.json=" + yaml_quoted(options.log_json));
  // Read here too, so that a slip in the job is answered before LibTorch is loaded and MPI started.
  const JobConfig job = load_config(request.config_file, request.sets, schedule_rules(), JobUse::kTrain).job;
  check_num_ranks(job, detect_launch(), command_line);
  return run_engine(request);
}

}  // namespace

void add_train_command(CLI::App& app, ChosenCommand& chosen) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand(
      "train", "Train a job. Start one process a rank: mpirun -n RANKS ppctl train --config job.yaml");
  command->add_option("--config", options->config, "The job (YAML)")->required()->type_name("FILE");
  command->add_option("--set", options->sets, "Give a key of the job another value; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_option("--steps", options->steps, "Short for --set steps=N")->type_name("N");
  command->add_option("--log-json", options->log_json, "Write JSON lines; short for --set log.json=FILE")
      ->type_name("FILE");
  command->callback(
      [options, &chosen] { chosen.run = [options, &chosen] { return train(*options, chosen.command_line); }; });
}

}  // namespace ppctl
