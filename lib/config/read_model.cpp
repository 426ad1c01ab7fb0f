#include <fmt/format.h>

#include <array>

#include "config/hf_keys.hpp"
#include "config/sections.hpp"

namespace ppctl {

void read_model(MapReader& job, ModelConfig& model) {
  MapReader map = job.section("model");
  map.path("from", model.from);
  map.choice("family", model.family, model_families());
  static constexpr std::array kDtypes{std::string_view("float32"), std::string_view("bfloat16")};
  map.choice("dtype", model.dtype, kDtypes);
  map.boolean("load_weights", model.load_weights);
  static constexpr std::array kEncoders{std::string_view("trainable"), std::string_view("frozen"),
                                        std::string_view("projector_only")};
  map.choice("encoder", model.encoder, kEncoders);
  read_hf_keys(map, model);
  map.finish();

  ReadContext& context = map.context();
  if (map.node() == nullptr) {
    if (!context.faulty.contains("model")) {
      context.complain("model", "missing key 'model', for example model: {from: path/to/hf_folder}");
    }
    return;
  }
  if (!context.given("model.from") && !context.given("model.family")) {
    context.complain("model.from",
                     "'model' needs 'from' (a Hugging Face folder) or 'family' and the model's dimensions");
  }
  if (context.given("model.from") && context.given("model.family")) {
    context.complain("model.family",
                     "'model.family' has no place beside 'model.from': the folder's config.json says the family");
  }
  if (context.given("model.load_weights") && !context.given("model.from")) {
    context.complain("model.load_weights", "'model.load_weights' needs 'model.from', the folder to load them from");
  }
}

}  // namespace ppctl
