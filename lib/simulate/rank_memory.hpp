#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/model_spec.hpp"
#include "arch/sketch.hpp"
#include "arch/stage_range.hpp"
#include "config/job_config.hpp"
#include "schedule/schedule.hpp"

namespace ppctl {

/// How a job holds a model: what, beside a schedule, decides what its ranks need.
struct MemoryModel {
  ModelSpec spec;
  std::vector<int> layer_counts;              ///< of each stage
  std::vector<LayerActivations> activations;  ///< of each layer of the model; empty: all are kept
  SketchShape shape;                          ///< of a microbatch, in the dtype of computing
  int dp_shard = 1;                           ///< ranks that share the parameters of a stage
  int shard = 0;                              ///< which of them: the first has the largest shards
  ExpertShare experts;                        ///< that the rank holds
  int expert_shard_count = 1;                 ///< ranks that share the parameters of these experts
  int expert_shard = 0;                       ///< which of them
  std::int64_t reduce_bytes = 4;              ///< of an element of a gradient that travels
  bool reduces_every_microbatch = false;      ///< fsdp.reduce: microbatch
  bool loads_by_schedule = false;             ///< mpipe: images are loaded by the schedule's steps
  bool encoder_recomputes = false;            ///< mpipe.backward: recompute

  StageRange range_of(int stage) const;
};

/// As the job says. `layer_counts` from layers_per_stage().
MemoryModel memory_model(const JobConfig& job, const ModelSpec& spec, std::vector<int> layer_counts);

/// Bytes on one rank. What lives between steps is exact; so is the peak for the built-in layers, in the order in which
/// the executor runs the schedule; in an overlapped pair it is a bound, since its two threads may be at their fullest
/// moments at different times. Not counted: memory that is no tensor and no receive buffer (the program, scratch of
/// kernels, the transport's copies of messages).
struct RankMemory {
  // all the time
  std::int64_t parameters = 0;  ///< in the dtype of computing, or this rank's shards in float32
  std::int64_t masters = 0;     ///< in float32, where the dtype of computing is shorter
  std::int64_t moments = 0;     ///< the optimizer's
  std::int64_t tables = 0;      ///< of the rotary embedding
  std::int64_t gradients = 0;   ///< of whole groups; those of shards live within a step alone
  // within a step, at its peak
  std::int64_t unsharded = 0;       ///< whole parameters that were gathered
  std::int64_t step_gradients = 0;  ///< gradients that are not there between steps, and reductions under way
  /// MPipe: gradients of the encoder by single microbatches, kept to be folded, and the fold.
  std::int64_t encoder_gradients = 0;
  std::int64_t batch = 0;        ///< token ids, labels and images
  std::int64_t activations = 0;  ///< saved, queued, on their way, and the temporaries of the step
  std::string peak_step;         ///< where that is: "3F4"
  /// Receive buffers of the pipeline's edges. They are no tensors, and are kept from step to step.
  std::int64_t buffers = 0;
  /// The most that a swap has in its tier at once. No part of the sums below.
  std::int64_t swapped = 0;

  std::int64_t optimizer() const { return masters + moments; }
  std::int64_t tensors_between_steps() const { return parameters + masters + moments + tables + gradients; }
  std::int64_t tensors_at_peak() const {
    return tensors_between_steps() + unsharded + step_gradients + encoder_gradients + batch + activations;
  }
  std::int64_t total() const { return tensors_at_peak() + buffers; }
};

/// One rank's, by a walk along its steps. `schedule` must be lowered. Linear in the rank's steps.
RankMemory plan_rank_memory(const Schedule& schedule, const MemoryModel& model, PipelineRank rank);
/// Every pipeline rank's.
std::vector<RankMemory> plan_memory(const Schedule& schedule, const MemoryModel& model);
/// The most that a rank needs.
std::int64_t largest_total(const std::vector<RankMemory>& ranks);

}  // namespace ppctl
