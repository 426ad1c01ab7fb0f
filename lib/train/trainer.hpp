#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/mesh_groups.hpp"
#include "comm/transport.hpp"
#include "config/job_config.hpp"
#include "runtime/activation_swap.hpp"
#include "runtime/overlapped_exchange.hpp"
#include "runtime/overlapped_pairs.hpp"
#include "runtime/stage_replicas.hpp"
#include "runtime/tied_weights.hpp"
#include "runtime/transposed_encoder.hpp"
#include "schedule/schedule.hpp"
#include "shard/fsdp.hpp"
#include "shard/group_expert_exchange.hpp"
#include "simulate/model_plan.hpp"
#include "topology/mesh.hpp"
#include "train/checkpoint.hpp"
#include "train/grad_norm.hpp"
#include "train/lr_schedule.hpp"
#include "train/memory_watch.hpp"
#include "train/post_validation.hpp"
#include "train/rank_model.hpp"
#include "train/records.hpp"
#include "train/replicas.hpp"
#include "train/samples.hpp"
#include "train/step_exchange.hpp"
#include "train/step_report.hpp"

namespace ppctl {

/// What a run is given besides its job.
struct TrainOptions {
  /// Whether the user asked this rank to end after the current step; empty: never. Any rank's wish ends all.
  std::function<bool()> stop_requested;
  /// Make an observer once it is known whether the run goes on from a checkpoint. Called on rank 0.
  std::function<std::vector<std::unique_ptr<TrainObserver>>(bool resumed)> make_observers;
  /// Instead of the job's data.
  std::shared_ptr<const SampleSource> samples;
};

/// How a run ended.
struct TrainResult {
  TrainState state;
  double last_loss = 0.0;
  bool stopped = false;          ///< by the user
  double unigram_entropy = 0.0;  ///< of the training text, on rank 0; 0 for other data
  std::string sample;            ///< the continuation of sample.prompt, on the ranks of replica 0
  SwapStats swap;                ///< of this rank
  std::size_t most_swapped_bytes = 0;
  // by world rank; empty without log.memory
  std::vector<RankMemory> planned_memory;
  std::vector<MemoryPart> measured_memory;
};

/// One rank's part of a training run. Construction and run() are COLLECTIVE over the job. One thread.
///
/// What can be wrong with the job is found, and agreed on by all ranks (AgreedError), before anything is computed. When
/// run() throws something else, the caller aborts the transport, so that the other ranks end too.
class Trainer {
 public:
  /// `schedule`: lowered and verified. `job` and `communicator` must outlive the object.
  Trainer(const JobConfig& job, Schedule schedule, Communicator& communicator, TrainOptions options = {});
  ~Trainer();

  TrainResult run();

 private:
  /// What a rank makes without the others.
  void prepare_alone();
  /// What ranks make together.
  void connect();
  /// Gives the stages the way to the experts of other ranks.
  void connect_experts();
  void connect_encoder();
  /// What FSDP knows the transposed encoder as: a stage behind the last one.
  StageId encoder_stage() const { return StageId(schedule_.num_stages()); }
  void announce() const;
  /// Steps of the whole run.
  std::int64_t total_steps() const;

  void train_step();
  void run_batches(StepPart& part, double loss_scale);
  /// Waits for the norm over all ranks, then updates the parameters.
  void end_step(double lr, Nanoseconds start);
  /// Updates them at once; settle() learns the norm and the losses, and corrects what was updated.
  void end_step_optimistically(double lr, Nanoseconds start);
  /// Ends what end_step_optimistically() left open, if anything. Returns whether the parameters were right already.
  /// COLLECTIVE over the world.
  bool settle();
  void count_step();
  /// What the ranks' parts come to; notes their memory.
  StepReport combine(const std::vector<StepPart>& parts);
  void report_step(const StepReport& report, const NormOutcome& outcome, double lr, double step_ms);
  void note_epoch();
  void evaluate();
  void save();
  void finish(TrainResult& result);
  void export_model();
  std::string sample();
  void report_shards() const;
  void report_swap(TrainResult& result) const;

  bool is_first_rank() const { return world_->rank() == 0; }
  Deadline deadline() const { return Deadline::after_seconds(job_.timeout_s); }
  void say(const std::string& text) const;

  const JobConfig& job_;
  std::unique_ptr<Communicator> link_;  ///< null without links that are emulated
  std::optional<TensorMeter> meter_;    ///< before all that holds tensors
  Schedule schedule_;
  Communicator& communicator_;
  TrainOptions options_;
  Mesh mesh_;
  BatchShape shape_;
  std::unique_ptr<Group> world_;
  std::optional<MeshGroups> axes_;
  PipelineRanks pipeline_ranks_;

  ModelSpec spec_;
  ModelPlan plan_;
  std::optional<RankModel> model_;
  Dataset dataset_;
  std::optional<BatchLoader> loader_;
  std::optional<BatchLoader> eval_loader_;
  std::optional<LrSchedule> lr_schedule_;
  std::optional<AdamW> optimizer_;

  std::unique_ptr<ExpertExchange> expert_exchange_;      ///< null where ep is 1
  std::unique_ptr<Fsdp> fsdp_;                           ///< null where dp_shard is 1
  std::unique_ptr<OverlappedPairs> pairs_;               ///< null where pairs run in turns
  std::unique_ptr<ExpertExchange> overlapped_exchange_;  ///< null unless there is both of them
  std::unique_ptr<ActivationSwap> swap_;                 ///< null without `swap`
  std::unique_ptr<TransposedEncoder> encoder_;           ///< null without mpipe
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<TiedWeights> tied_;
  std::unique_ptr<StageReplicas> stage_replicas_;
  std::unique_ptr<GradReplicas> grad_replicas_;
  std::unique_ptr<GradReplicas> expert_replicas_;
  std::unique_ptr<GradNorm> norm_;
  std::unique_ptr<PostValidation> post_validation_;  ///< pipeline.post_validation
  std::unique_ptr<StepExchange> exchange_;
  std::unique_ptr<StepExchange> eval_exchange_;
  std::unique_ptr<CheckpointStore> store_;
  std::vector<std::unique_ptr<TrainObserver>> observers_;

  std::optional<MemoryWatch> memory_;  ///< empty without log.memory
  /// A step whose norm and losses are not known yet: the one before state_.step.
  struct UnsettledStep {
    double lr = 0.0;
    double step_ms = 0.0;
  };

  TrainState state_;
  StepPart part_;
  std::optional<UnsettledStep> unsettled_;
  bool saves_ready_ = false;  ///< every rank has done its part of the save that goes on, as settle() learned
  double last_loss_ = 0.0;
  bool stop_ = false;
  std::int64_t saved_at_ = -1;
  std::optional<CheckpointStore::Resumed> resumed_;
};

}  // namespace ppctl
