#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/transport.hpp"
#include "runtime/early_transfers.hpp"
#include "runtime/optimistic_part.hpp"
#include "runtime/pipeline_stage.hpp"
#include "runtime/rank_program.hpp"
#include "runtime/step_context.hpp"
#include "runtime/step_hooks.hpp"
#include "runtime/step_result.hpp"
#include "runtime/tensor_router.hpp"
#include "schedule/schedule.hpp"

namespace ppctl {

struct ExecutorOptions {
  double timeout_s = 300;     ///< of each wait for another rank
  bool record_spans = false;  ///< fill StepResult::spans: costs two clock reads and 40 bytes a step
  int tag_space = 0;          ///< executors that share a transport at the same time need different ones
  bool validates = false;     ///< run() will be given validations
};

/// Runs one rank's part of a schedule, step by step: a flat loop over MetaSteps with a table of handlers by kind.
///
/// A send starts a transfer and never blocks; a receive posts one; the compute step that consumes the tensors waits for
/// them, with a deadline. Stages of the same rank hand tensors over without communication. That a send is complete is
/// waited for when its edge needs the buffer again, or at the end of the step.
///
/// The two halves of OVERLAP_B_F run one after the other, first the backward, unless a custom function runs them at
/// once (StepContext::run_pair, overlapped_pairs.hpp): then two threads are here for as long as that takes. Each half
/// begins when its own inputs are here, and what it makes leaves when it ends (pair_transfers.hpp).
///
/// The schedule must be executable (lower_schedule) and proved (verify_schedule). Methods are for one thread; run and
/// run_forward are COLLECTIVE over the ranks of the pipeline. When a step throws, the error is thrown on with rank,
/// training step and MetaStep in front; whoever catches it aborts the transport, so that the peers end too (run_inproc
/// does), and the executor is of no more use.
class Executor {
 public:
  /// `stages` by chunk: stages[c] is placement.stage_of(rank, c).
  Executor(const Schedule& schedule, PipelineRanks ranks, std::vector<std::shared_ptr<PipelineStage>> stages,
           ExecutorOptions options = {});
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Replaces the handler of a kind, composites and sends included; a null function restores the default.
  void register_custom_function(MetaStepType type, CustomFunction function);
  /// Gives the machinery of steps other than compute and transfers; see StepHooks.
  void set_hooks(StepHooks hooks) { hooks_ = hooks; }
  void set_record_spans(bool record) { options_.record_spans = record; }

  /// One training step: every step of the schedule. REQUIRES: one microbatch for each of the schedule's. The result is
  /// valid until the next run.
  const StepResult& run(std::vector<Microbatch> microbatches);
  /// The same, begun on parameters that may still change (post-validation). `validate` is called once, before the first
  /// step that touches gradients, and makes the parameters final. It returns whether they were right from the start;
  /// where they were not, what was run is abandoned and the whole step runs again. All ranks must get the same answer.
  /// REQUIRES: options.validates.
  const StepResult& run(std::vector<Microbatch> microbatches, const std::function<bool()>& validate);
  /// Forward steps alone; microbatches are run with training = false.
  const StepResult& run_forward(std::vector<Microbatch> microbatches);

  PipelineRank rank() const { return ranks_.rank; }
  int num_microbatches() const { return num_microbatches_; }
  const Placement& placement() const { return placement_; }
  /// Memory of the buffers that receives of other ranks' tensors use, in use or not.
  std::size_t receive_buffer_bytes() const { return router_.receive_buffer_bytes(); }

 private:
  friend class StepContext;
  using Handler = void (Executor::*)(MetaStep);
  static Handler default_handler(MetaStepType type);

  const StepResult& run_program(const RankProgram& program, std::vector<Microbatch> microbatches,
                                const std::function<bool()>& validate = {});
  void run_steps(const RankProgram& program, const std::function<bool()>& validate);
  void begin_steps();
  void run_from(const RankProgram& program, std::size_t first);
  /// Returns where the whole program goes on: after the optimistic part, or at its start.
  std::size_t run_optimistic_part(const std::function<bool()>& validate);
  void abandon_optimistic_part();
  void run_step(MetaStep step);

  void run_forward_step(MetaStep step);
  void run_backward_step(MetaStep step);
  void run_backward_weight(MetaStep step);
  void run_send(MetaStep step);
  void run_recv(MetaStep step);
  void run_batch(MetaStep step);
  void run_sub_steps(MetaStep step);
  void run_pair(MetaStep pair, const PairRunner& run_both);
  void run_pair_in_turns(MetaStep pair);
  /// The halves of a pair whose parameters are here: the backward and the forward.
  std::span<const MetaStep> begin_pair(MetaStep pair);
  /// Runs a half and starts the transfers that waited for it.
  void run_half(MetaStep half);
  void run_shard(MetaStep step);
  void run_swap(MetaStep step);
  void run_preprocess(MetaStep step);
  /// Whether a step's stage takes features.
  bool is_fed(MetaStep step) const;
  /// Takes the gradients of features off the end of `input_grads`.
  void give_feature_grads(MetaStep backward, TensorList& input_grads);

  PipelineStage& stage_of(MetaStep step) const;
  TensorList wait_for_inputs(MetaStep step);
  void await_parameters(MetaStep step);
  void note_wait(MetaStep step, const WaitSpan& wait);
  /// Waits for parameters; when the step's compute starts.
  Nanoseconds begin_compute(MetaStep step);
  /// Notes a span of compute, outside of a pair also as busy time.
  void note_compute(EventKind kind, MetaStep step, Nanoseconds start, Nanoseconds end);
  void give_outputs(MetaStep step, TensorList tensors);
  [[noreturn]] void refuse(MetaStep step, const char* what) const;

  void record(EventKind kind, MetaStep step, Nanoseconds start, Nanoseconds end, PipelineRank peer = {});
  void note_alive(int change);
  void collect_losses();
  void show_status(std::string_view step_text);
  std::string where() const;

  Placement placement_;
  int num_microbatches_;
  PipelineRanks ranks_;
  std::vector<std::shared_ptr<PipelineStage>> stages_;  ///< by chunk
  ExecutorOptions options_;
  RankProgram training_;
  RankProgram forward_only_;
  std::optional<OptimisticPart> optimistic_;
  TensorRouter router_;
  StepHooks hooks_;
  std::array<CustomFunction, kNumMetaStepTypes> custom_;
  bool has_custom_transfers_ = false;

  // of the step that runs
  std::vector<Microbatch> microbatches_;
  const RankProgram* program_ = nullptr;  ///< whose sub-steps composites mean
  std::size_t step_index_ = 0;            ///< of the step that runs, in program_
  std::int64_t step_number_ = 0;
  EarlyTransfers early_;
  std::mutex pair_mutex_;       ///< over what both threads of a pair write: spans, chunks alive, hooks of shards
  bool in_pair_ = false;        ///< two threads run a pair
  Nanoseconds pair_start_ = 0;  ///< when the first of its halves began to compute; 0: none has
  int alive_chunks_ = 0;
  std::atomic<std::size_t> num_features_ = 0;  ///< tensors that a stage takes besides those of the stage before it
  std::string status_;             ///< "step 12, 3F4"; keeps its capacity, so that a step formats and allocates nothing
  std::size_t status_prefix_ = 0;  ///< length of "step 12, "
  StepResult result_;
};

}  // namespace ppctl
