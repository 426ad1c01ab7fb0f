#include <CLI/CLI.hpp>
#include <map>
#include <memory>

#include "commands.hpp"
#include "engine_loader.hpp"

namespace ppctl {

void add_export_command(CLI::App& app, ChosenCommand& chosen) {
  CLI::App* command = app.add_subcommand("export", "Write the weights of a checkpoint as a Hugging Face folder");
  auto options = std::make_shared<std::map<std::string, std::string>>();
  command
      ->add_option("--checkpoint", (*options)["checkpoint"],
                   "A checkpoint, or a job's checkpoint.folder, of which the newest counts")
      ->type_name("FOLDER")
      ->required();
  command->add_option("--out", (*options)["out"], "The folder to make")->type_name("FOLDER")->required();
  command
      ->add_option("--dtype", (*options)["dtype"], "What to convert the weights to; without it they stay as they are")
      ->check(CLI::IsMember({"float32", "bfloat16"}));
  command->callback([options, &chosen] {
    chosen.run = [options] {
      EngineRequest request;
      request.command = "export";
      request.options = *options;
      return run_engine(request);
    };
  });
}

}  // namespace ppctl
