#pragma once

#include <map>
#include <string>

#include "model/family.hpp"
#include "model/stage_module.hpp"

namespace ppctl::testing_support {

/// The parameters of a stage as leaves of an autograd graph: copies that require gradients.
std::map<std::string, at::Tensor> leaf_parameters(StageModule& stage);

/// The objective (loss_scale times the sum of token losses) of a whole model as a plain composition of torch operators,
/// with the same dropout factors that the stage draws.
at::Tensor reference_objective(const ModelSpec& spec, std::map<std::string, at::Tensor>& parameters,
                               const Microbatch& microbatch, std::uint64_t dropout_seed);

}  // namespace ppctl::testing_support
