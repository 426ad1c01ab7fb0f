#include <CLI/CLI.hpp>
#include <map>
#include <memory>

#include "commands.hpp"
#include "config/load.hpp"
#include "engine_loader.hpp"
#include "job_schedule.hpp"

namespace ppctl {
namespace {

/// Without a subcommand: what the layers of a job cost.
void add_profile_option(CLI::App& bench, ChosenCommand& chosen) {
  auto request = std::make_shared<EngineRequest>();
  request->command = "bench profile";
  std::string& file = request->options["profile"];
  CLI::Option* config =
      bench.add_option("--config", request->config_file, "The job whose layers are measured (YAML)")->type_name("FILE");
  CLI::Option* profile =
      bench
          .add_option("--profile", file,
                      "Measure forward, dx, dw and bytes of the job's embedding, layers and head, and write them for "
                      "`profile: FILE` of a job, by which layers are split and plans are timed")
          ->type_name("FILE");
  profile->needs(config);
  bench.add_option("--set", request->sets, "Give a key of the job another value; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  bench.callback([request, profile, &bench, &chosen] {
    if (!bench.get_subcommands().empty()) return;
    if (profile->empty()) throw CLI::RequiredError("bench: 'bubbles' or 'overlap', or --config with --profile");
    chosen.run = [request] {
      load_config(request->config_file, request->sets, schedule_rules());  // a slip is answered before LibTorch is here
      return run_engine(*request);
    };
  });
}

/// A benchmark whose options travel to the engine as text: it reads them, since it is the one that knows what fits.
class BenchCommand {
 public:
  BenchCommand(CLI::App& bench, const std::string& name, const char* text, ChosenCommand& chosen)
      : command_(bench.add_subcommand(name, text)), options_(std::make_shared<Options>()) {
    command_->callback([options = options_, name, &chosen] {
      chosen.run = [options, name] {
        EngineRequest request;
        request.command = "bench " + name;
        request.options = *options;
        return run_engine(request);
      };
    });
  }

  CLI::Option* add(const std::string& name, const char* initial, const char* type, const char* text) {
    (*options_)[name] = initial;
    return command_->add_option("--" + name, (*options_)[name], text)->type_name(type)->capture_default_str();
  }

 private:
  using Options = std::map<std::string, std::string>;
  CLI::App* command_;
  std::shared_ptr<Options> options_;
};

void add_bubbles(CLI::App& bench, ChosenCommand& chosen) {
  BenchCommand command(
      bench, "bubbles",
      "Run schedules with stages that sleep for given times: theory, simulation and measurement side by side", chosen);
  command.add("schedules", "all", "NAME[,NAME...]", "Schedules");
  command.add("pp", "4", "N[,N...]", "Ranks; threads of this process, or the first N ranks under mpirun");
  command.add("microbatches", "2p", "M[,M...]", "Microbatches; 2p is twice the ranks");
  command.add("chunks", "0", "V[,V...]", "Stages a rank; 0: the schedule's own number");
  command.add("forward-ms", "10", "MS", "Forward of one stage and microbatch");
  command.add("dx-ms", "10", "MS", "Gradient of its input");
  command.add("dw-ms", "10", "MS", "Gradient of its weights");
  command.add("stage-scale", "", "N[,N...]", "What to multiply these times with, one number a stage (layers: 3,4,4,2)");
  command.add("activation-mib", "0", "MIB", "Kept from a microbatch's forward to its backward");
  command.add(
      "offload-gbps", "0", "GBPS",
      "Swap them to an emulated tier of 10^9 bits a second each way where the backward is four slots away; 0: do "
      "not");
  CLI::Option* scale = command.add(
      "encoder-scale", "0", "X",
      "An encoder in front of the stages takes X times what a stage takes (without --stage-scale); 0: none");
  command
      .add("encoder", "first_stage,split,before_body,just_in_time", "PLACE[,PLACE...]",
           "Where it runs: in the first stage, split evenly over all stages as layers can at best come near, or by "
           "MPipe on all ranks, before and after the body or in its gaps")
      ->needs(scale);
  command.add("steps", "5", "N", "Steps to measure; the shortest counts");
  command.add("format", "text", "text|json", "What to print");
  command.add("trace", "", "FILE", "Also write measured and simulated timelines as a Chrome trace");
}

void add_overlap(CLI::App& bench, ChosenCommand& chosen) {
  BenchCommand command(
      bench, "overlap",
      "Hide all-to-alls and messages under compute: stages of experts that sleep for given times, over "
      "links that are emulated; simulation and measurement side by side",
      chosen);
  command.add("schedule", "interleaved_1f1b", "NAME", "Schedule");
  command.add("pp", "4", "N", "Ranks of a pipeline");
  command.add("ep", "2", "N",
              "Expert-parallel ranks, each with a pipeline; pp x ep threads of this process, or ranks "
              "under mpirun");
  command.add("chunks", "2", "V", "Stages a rank");
  command.add("microbatches", "16", "M", "Microbatches");
  command.add("layers", "2", "N", "Layers of experts in each stage");
  command.add("forward-ms", "20", "MS", "Compute of the forward of one stage and microbatch");
  command.add("backward-ms", "40", "MS", "Compute of its backward");
  command.add("exchange-share", "0.4", "X", "All-to-alls take this share of the compute");
  command.add("p2p-share", "0.2", "X", "A message between stages takes this share of --forward-ms");
  command.add("variants", "none,b_f,p2p,b_f+p2p,b_f+p2p+duplex", "NAME[,NAME...]",
              "What to switch on: none, or b_f, p2p and duplex joined by +");
  command.add("steps", "3", "N", "Steps to measure; the shortest counts");
  command.add("format", "text", "text|json", "What to print");
  command.add("trace", "", "FILE", "Also write measured and simulated timelines as a Chrome trace");
}

}  // namespace

void add_bench_command(CLI::App& app, ChosenCommand& chosen) {
  CLI::App* bench = app.add_subcommand("bench", "Measure, and hold the measurement against the prediction");
  bench->require_subcommand(0, 1);
  add_profile_option(*bench, chosen);
  add_bubbles(*bench, chosen);
  add_overlap(*bench, chosen);
}

}  // namespace ppctl
