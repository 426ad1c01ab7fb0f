#pragma once

#include <cstdint>
#include <memory>

#include "arch/family.hpp"
#include "arch/stage_range.hpp"
#include "model/stage_module.hpp"

namespace ppctl {

/// Builds a stage with gradients of zero and values that initialize() or load_weights() has to fill. `dropout_seed` is
/// the job's seed. A tied head is a parameter of its own with tied_to set.
std::shared_ptr<StageModule> build_stage(const ModelSpec& spec, at::ScalarType dtype, const StageRange& range,
                                         std::uint64_t dropout_seed);

/// Fills the values of a stage's parameters as transformers would initialise them. Each number is a function of seed,
/// parameter name (of the tied one where it is tied) and element alone: the same for every p, v and dp.
void initialize(StageModule& stage, std::uint64_t seed);
/// The same for one group, into `flat`: a buffer with the group's layout, of any float dtype.
void initialize(const ParameterGroup& group, const at::Tensor& flat, std::uint64_t seed);

}  // namespace ppctl
