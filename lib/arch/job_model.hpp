#pragma once

#include <vector>

#include "arch/model_spec.hpp"
#include "arch/stage_range.hpp"
#include "config/job_config.hpp"
#include "topology/mesh.hpp"
#include "topology/placement.hpp"

namespace ppctl {

/// The model that a job names: of its folder, or of its family and dimensions. Throws Error where there is none.
ModelSpec read_model(const JobConfig& job);
/// The same as the job trains it. Throws Error also where the job asks what the model cannot do.
ModelSpec model_of_job(const JobConfig& job);

/// The ranks of a job.
Mesh mesh_of_job(const JobConfig& job);

/// Layers of each stage, as pipeline.layers says: `plan` and `train` split alike. Throws Error, with the numbers, where
/// they do not fit.
std::vector<int> layers_per_stage(const JobConfig& job, const ModelSpec& spec, const Placement& placement);

/// The split by cost of `layers: auto`, with at most `most_layers` in each stage; empty: any number. Throws Error where
/// there is none.
std::vector<int> split_layers(const JobConfig& job, const ModelSpec& spec, const Placement& placement,
                              const std::vector<int>& most_layers = {});

/// What becomes of the activations of each layer of the stages, as `recompute` and `swap` say. `layer_counts`: of each
/// stage. Throws Error where they name stages or layers that there are not.
std::vector<LayerActivations> layer_activations(const JobConfig& job, const std::vector<int>& layer_counts);

/// What stage `stage` holds where the stages have `layer_counts` layers. `activations`: of all layers of the stages;
/// empty: all are kept. `experts`: those that the rank holds.
StageRange stage_range(const ModelSpec& spec, const std::vector<int>& layer_counts, int stage,
                       const std::vector<LayerActivations>& activations = {}, const ExpertShare& experts = {});

}  // namespace ppctl
