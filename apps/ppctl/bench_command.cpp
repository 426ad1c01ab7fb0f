#include <CLI/CLI.hpp>
#include <map>
#include <memory>

#include "commands.hpp"
#include "engine_loader.hpp"

namespace ppctl {

void add_bench_command(CLI::App& app, ChosenCommand& chosen) {
  CLI::App* bench = app.add_subcommand("bench", "Measure, and hold the measurement against the prediction");
  bench->require_subcommand(1);
  CLI::App* command = bench->add_subcommand(
      "bubbles",
      "Run schedules with stages that sleep for given times: theory, simulation and measurement side by side");

  // Everything travels as text: the engine reads it, since it is the one that knows what fits.
  auto options = std::make_shared<std::map<std::string, std::string>>();
  const auto add = [&](const std::string& name, const char* initial, const char* type, const char* text) {
    (*options)[name] = initial;
    command->add_option("--" + name, (*options)[name], text)->type_name(type)->capture_default_str();
  };
  add("schedules", "all", "NAME[,NAME...]", "Schedules");
  add("pp", "4", "N[,N...]", "Ranks; threads of this process, or the first N ranks under mpirun");
  add("microbatches", "2p", "M[,M...]", "Microbatches; 2p is twice the ranks");
  add("chunks", "0", "V[,V...]", "Stages a rank; 0: the schedule's own number");
  add("forward-ms", "10", "MS", "Forward of one stage and microbatch");
  add("dx-ms", "10", "MS", "Gradient of its input");
  add("dw-ms", "10", "MS", "Gradient of its weights");
  add("steps", "5", "N", "Steps to measure; the shortest counts");
  add("format", "text", "text|json", "What to print");
  add("trace", "", "FILE", "Also write measured and simulated timelines as a Chrome trace");
  command->callback([options, &chosen] {
    chosen.run = [options] {
      EngineRequest request;
      request.command = "bench bubbles";
      request.options = *options;
      return run_engine(request);
    };
  });
}

}  // namespace ppctl
