#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/transport.hpp"
#include "runtime/batch_split.hpp"
#include "runtime/executor.hpp"
#include "runtime/overlapped_pairs.hpp"
#include "schedule/generator.hpp"
#include "schedule/pass.hpp"
#include "schedule/schedule.hpp"

namespace ppctl {

using StagePtr = std::shared_ptr<PipelineStage>;

/// Options of a schedule that is run through the API.
struct PipelineOptions {
  PassOptions passes;  ///< how the schedule is lowered
  ExecutorOptions executor;
  BatchDims batch_dims;     ///< which dims of the inputs of run() are split
  double loss_scale = 1.0;  ///< multiplies the gradient of each microbatch's loss sum; 1 / labels gives their mean
  std::vector<int>
      world_ranks;  ///< by pipeline rank; empty: ranks 0 .. pp - 1 of the communicator, which are all of it
};

/// A pipeline that a program drives itself: a thin wrapper that generates, lowers, proves and runs a schedule.
///
/// Construction and run() are COLLECTIVE over the pipeline's ranks. The stages and the communicator are this rank's;
/// the communicator must outlive the object. With passes.overlap_b_f the two halves of a pair run on two threads.
/// Gradients accumulate in the stages' parameter groups; nothing is averaged, zeroed or updated here.
class PipelineSchedule {
 public:
  /// By a generator's name. `stages` are this rank's, by chunk. Throws Error where the name, the number of stages or
  /// the number of microbatches does not fit.
  PipelineSchedule(const std::string& name, std::vector<StagePtr> stages, int micro_batch_num,
                   Communicator& communicator, PipelineOptions options = {});
  /// A schedule made elsewhere (read_csv): compute steps alone, or lowered already.
  PipelineSchedule(Schedule schedule, std::vector<StagePtr> stages, Communicator& communicator,
                   PipelineOptions options = {});

  /// One training step over a batch. `args` are the first stage's positional inputs and are read where this rank holds
  /// it; `kwargs` reach every stage of this rank. Gives the losses of the microbatches whose last stage is on this
  /// rank, in ascending order: all of them on the last stage's rank, none elsewhere.
  std::vector<MicrobatchLoss> run(const TensorList& args, const TensorMap& kwargs = {});
  /// Forward alone. Gives the last stage's outputs by microbatch, where it is on this rank.
  std::vector<TensorList> run_forward(const TensorList& args, const TensorMap& kwargs = {});

  void register_custom_function(MetaStepType type, CustomFunction function);

  Executor& executor() { return *executor_; }
  /// What modules with exchanges of their own wrap them with; null without passes.overlap_b_f.
  CommComputeOverlap* overlap() { return pairs_ ? &pairs_->overlap() : nullptr; }
  const Schedule& schedule() const { return schedule_; }
  const PipelineOptions& options() const { return options_; }  ///< with world_ranks filled in

 private:
  void prepare(std::vector<StagePtr> stages, Communicator& communicator);
  std::vector<Microbatch> microbatches(const TensorList& args, const TensorMap& kwargs);

  Schedule schedule_;
  PipelineOptions options_;
  std::unique_ptr<OverlappedPairs> pairs_;  ///< with passes.overlap_b_f
  std::unique_ptr<Executor> executor_;
  std::int64_t step_ = 0;
};

/// All forwards, then all backwards.
class ScheduleGPipe : public PipelineSchedule {
 public:
  ScheduleGPipe(StagePtr stage, int micro_batch_num, Communicator& communicator, PipelineOptions options = {});
};

/// One forward, one backward.
class Schedule1F1B : public PipelineSchedule {
 public:
  Schedule1F1B(StagePtr stage, int micro_batch_num, Communicator& communicator, PipelineOptions options = {});
};

/// 1F1B over several virtual stages a rank, in loop placement.
class ScheduleInterleaved1F1B : public PipelineSchedule {
 public:
  ScheduleInterleaved1F1B(std::vector<StagePtr> stages, int micro_batch_num, Communicator& communicator,
                          bool overlap_p2p = false, bool overlap_b_f = false, PipelineOptions options = {});
};

}  // namespace ppctl
