#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <memory>
#include <string>

#include "commands.hpp"
#include "plan.hpp"

namespace ppctl {
namespace {

/// A finite number that is not negative, or, with `zero` false, above 0. The checks that CLI11 has answer with the
/// range of a double, and take nan.
CLI::Validator a_number(bool zero) {
  const auto check = [zero](const std::string& text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_number = error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
    if (is_number && (value > 0 || (zero && value == 0))) return std::string();
    return fmt::format("'{}' is no number {} 0", text, zero ? "of at least" : "above");
  };
  return {check, zero ? "NONNEGATIVE" : "POSITIVE"};
}

void add_schedule_options(CLI::App& command, PlanOptions& options) {
  const char* const group = "What to plan (on top of the job file, or without one)";
  command.add_option("--schedule", options.schedule, "Name of a schedule")->type_name("NAME")->group(group);
  command.add_option("--pp", options.pp, "Ranks in the pipeline (without a job: 4)")
      ->group(group)
      ->check(CLI::Range(1, 65535));
  command.add_option("--chunks", options.chunks, "Stages a rank (the schedule's own choice)")
      ->group(group)
      ->check(CLI::Range(1, 65535));
  command.add_option("--microbatches", options.microbatches, "Microbatches of a replica (without a job: 2 x pp)")
      ->group(group)
      ->check(CLI::Range(1, 16777215));
  command
      .add_option("--layers", options.layers,
                  "Layers of the model (40), or of each stage (2,3,3,2); times are then of one layer")
      ->type_name("N[,N...]")
      ->group(group);
  command.add_option("--group", options.group, "interleaved_1f1b: microbatches a group")
      ->group(group)
      ->check(CLI::Range(1, 65535));
  command.add_flag("--less-memory", options.less_memory, "interleaved_1f1b: the shallower warm-up")->group(group);
  command.add_option("--memory-limit", options.memory_limit, "auto: activations a rank, in microbatches")
      ->group(group)
      ->check(a_number(/*zero=*/true));
  command.add_flag("--split-backward", options.split_backward, "dx and dw apart")->group(group);
  command
      .add_flag("--overlap-b-f", options.overlap_b_f, "A backward and a forward at once where they follow each other")
      ->group(group);
  command.add_flag("--overlap-p2p", options.overlap_p2p, "Post receives one beat ahead")->group(group);
  command
      .add_flag("--post-validation", options.post_validation,
                "Also time steps that follow each other: the optimizer behind a global norm, and validated after it")
      ->group(group);
  command.add_flag("--duplex", options.duplex, "One call for what a beat sends to and receives from a peer")
      ->group(group);
}

void add_cost_options(CLI::App& command, PlanOptions& options) {
  const char* const group =
      "What a stage (with --layers: a layer) costs for one microbatch (else as the job's model computes and keeps)";
  const auto add = [&](const char* name, auto& field, const char* text) {
    command.add_option(name, field, text)->group(group)->check(a_number(/*zero=*/true));
  };
  add("--forward-ms", options.forward_ms, "Forward (1)");
  add("--dx-ms", options.dx_ms, "Gradient of the input (1)");
  add("--dw-ms", options.dw_ms, "Gradient of the weights (1)");
  add("--pair-factor", options.pair_factor, "Time of an overlapped pair over that of its halves (1)");
  add("--optimizer-ms", options.optimizer_ms, "Optimizer step of a rank, for --post-validation (0)");
  add("--p2p-ms", options.p2p_ms, "From one rank to another (0)");
  add("--latency-ms", options.latency_ms, "Latency of the link (the job's)");
  add("--bandwidth-gbps", options.bandwidth_gbps, "Bandwidth of the link, 10^9 bits a second (the job's)");
  add("--offload-gbps", options.offload_gbps,
      "To and from where a swap moves activations, 10^9 bits a second (the job's)");
  add("--output-mib", options.output_mib, "Tensor between stages (0)");
  add("--activation-mib", options.activation_mib, "Kept for the backward (0)");
  add("--state-mib", options.state_mib, "Parameters, gradients and optimizer state (0)");
}

}  // namespace

void add_plan_command(CLI::App& app, ChosenCommand& chosen) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command =
      app.add_subcommand("plan", "Show the schedule that a job would run, its bubble and its memory; starts nothing");
  command->add_option("--config", options->config, "The job (YAML)")->type_name("FILE");
  command->add_option("--set", options->sets, "Give a key of the job another value; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_flag("--show-config", options->show_config,
                    "Print every key of the job with its value and where that came from");
  add_schedule_options(*command, *options);
  add_cost_options(*command, *options);

  const char* const output = "What to print";
  command->add_option("--format", options->format, "text, csv (the steps), json, svg, trace (Chrome, Perfetto) or html")
      ->type_name("NAME")
      ->group(output)
      ->check(CLI::IsMember({"text", "csv", "json", "svg", "trace", "html"}));
  command->add_flag("--compare", options->compare, "All schedules in one table (with --format json: an array)")
      ->group(output);
  command
      ->add_flag("--auto", options->choose,
                 "The fastest way to run the job that fits in its memory, if that has a limit")
      ->group(output);
  command->add_option("--memory-gib", options->memory_gib, "Memory of a rank: says which ranks need more")
      ->group(output)
      ->check(a_number(/*zero=*/false));
  command->add_option("--check", options->check, "Prove a schedule written elsewhere (CSV as PyTorch writes it)")
      ->type_name("FILE")
      ->group(output);
  command
      ->add_option("--save", options->save,
                   "Write the steps as CSV; a job runs them with pipeline.schedule: {file: FILE}")
      ->type_name("FILE")
      ->group(output);
  command
      ->add_option("--zero-bubble-table", options->zero_bubble_table,
                   "Simulate each row of the zero-bubble paper's table (CSV) and print it beside the paper's rates")
      ->type_name("FILE")
      ->group(output);
  command->callback([options, &chosen] { chosen.run = [options] { return plan(*options); }; });
}

}  // namespace ppctl
