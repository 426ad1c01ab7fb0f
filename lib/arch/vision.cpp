#include "arch/vision.hpp"

namespace ppctl {
namespace {

constexpr std::string_view kProjector = "multi_modal_projector.";
constexpr std::string_view kTower = "vision_tower.";
constexpr std::string_view kOlderTower = "vision_tower.vision_model.";

std::string replaced(const std::string& name, std::string_view prefix, std::string_view by) {
  return std::string(by) + name.substr(prefix.size());
}

}  // namespace

bool is_trained(const ModelSpec& spec, const std::string& parameter) {
  if (!spec.vision || parameter.starts_with(kProjector)) return true;
  const VisionSpec::Training training = spec.vision->training;
  return parameter.starts_with(spec.vision->prefix) ? training == VisionSpec::Training::kAll
                                                    : training != VisionSpec::Training::kProjectorOnly;
}

bool is_frozen_before(const ModelSpec& spec, std::int64_t layer) {
  return spec.vision && spec.vision->training != VisionSpec::Training::kAll && layer <= spec.num_vision_layers();
}

std::vector<std::string> other_names(const ModelSpec& spec, const std::string& parameter) {
  if (!spec.vision) return {};
  if (parameter.starts_with(kProjector)) return {"model." + parameter};
  if (parameter.starts_with(kTower)) {
    const bool older = parameter.starts_with(kOlderTower);
    const std::string newer_name = older ? replaced(parameter, kOlderTower, kTower) : parameter;
    const std::string older_name = older ? parameter : replaced(parameter, kTower, kOlderTower);
    return {newer_name, older_name, "model." + newer_name, "model." + older_name};
  }
  const std::string bare = replaced(parameter, spec.text_prefix, "");
  // "model.layers.0..." is model.language_model.layers.0...; the head is lm_head.
  const std::string_view base = "model.";
  return {bare.starts_with(base) ? replaced(bare, base, "model.language_model.") : bare};
}

}  // namespace ppctl
