#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/model_spec.hpp"
#include "model/stage_module.hpp"

namespace ppctl {

/// The families that can be built, by the model_type of their config.json.
std::vector<std::string> family_names();

/// Reads a config.json. `origin` is what messages call it (its path). `overrides` replace or add keys: values are JSON
/// text ("64", "true", "\"silu\"", "null"); what is no JSON counts as a string. Both spellings of newer and older files
/// are read (rope_parameters, or rope_theta and rope_scaling). Throws Error that names origin and key.
ModelSpec parse_model(const std::string& config_json, const std::string& origin,
                      const std::map<std::string, std::string>& overrides = {});
/// A model given by family and keys alone. A key that the family's config.json does not have is an Error too: it would
/// be a spelling mistake.
ModelSpec parse_model_keys(const std::string& family, const std::map<std::string, std::string>& keys,
                           const std::string& origin = "model");

/// Which part of a model a stage holds.
struct StageRange {
  std::int64_t first_layer = 0;
  std::int64_t last_layer = 0;  ///< behind the last one
  bool has_embedding = false;
  bool has_head = false;

  static StageRange whole(const ModelSpec& spec) { return {0, spec.num_layers, true, true}; }
};

/// Builds a stage with gradients of zero and values that initialize() or load_weights() has to fill. `dropout_seed` is
/// the job's seed. A tied head is a parameter of its own with tied_to set.
std::shared_ptr<StageModule> build_stage(const ModelSpec& spec, at::ScalarType dtype, const StageRange& range,
                                         std::uint64_t dropout_seed);

/// All parameters of the model in forward order, tied ones included, without allocating anything.
std::vector<Parameter> all_parameters(const ModelSpec& spec);

/// Fills the values of a stage's parameters as transformers would initialise them. Each number is a function of seed,
/// parameter name (of the tied one where it is tied) and element alone: the same for every p, v and dp.
void initialize(StageModule& stage, std::uint64_t seed);
/// The same for one group, into `flat`: a buffer with the group's layout, of any float dtype.
void initialize(const ParameterGroup& group, const at::Tensor& flat, std::uint64_t seed);

/// Costs of one decoder layer, of the embedding and of the head (its final norm included).
LayerCost layer_cost(const ModelSpec& spec, std::int64_t sequence);
LayerCost embedding_cost(const ModelSpec& spec);
LayerCost head_cost(const ModelSpec& spec);

}  // namespace ppctl
