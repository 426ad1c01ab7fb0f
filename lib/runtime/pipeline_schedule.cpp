#include "runtime/pipeline_schedule.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "schedule/verify.hpp"

namespace ppctl {
namespace {

Schedule generate(const std::string& name, const std::vector<StagePtr>& stages, int micro_batch_num, int pp) {
  if (stages.empty()) throw_error("schedule {}: this rank has no stage", name);
  ScheduleSpec spec;
  spec.name = name;
  spec.pp = pp;
  spec.chunks = static_cast<int>(stages.size());
  spec.num_microbatches = micro_batch_num;
  return generate_schedule(std::move(spec));
}

std::vector<int> ranks_or_all(const PipelineOptions& options, Communicator& communicator) {
  if (!options.world_ranks.empty()) return options.world_ranks;
  std::vector<int> all(static_cast<std::size_t>(communicator.transport().size()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

bool is_lowered(const Schedule& schedule) {
  for (const RankSteps& rank : schedule.ranks) {
    for (const MetaStep step : rank.steps) {
      if (is_p2p(step.type()) || step.type() == MetaStepType::BATCH_SEND_RECV) return true;
    }
  }
  return false;
}

PipelineOptions with_overlap(PipelineOptions options, bool overlap_p2p, bool overlap_b_f) {
  options.passes.overlap_p2p = overlap_p2p;
  options.passes.overlap_b_f = overlap_b_f;
  options.passes.duplex = options.passes.duplex || overlap_b_f;
  return options;
}

}  // namespace

PipelineSchedule::PipelineSchedule(const std::string& name, std::vector<StagePtr> stages, int micro_batch_num,
                                   Communicator& communicator, PipelineOptions options)
    : schedule_(generate(name, stages, micro_batch_num, static_cast<int>(ranks_or_all(options, communicator).size()))),
      options_(std::move(options)) {
  prepare(std::move(stages), communicator);
}

PipelineSchedule::PipelineSchedule(Schedule schedule, std::vector<StagePtr> stages, Communicator& communicator,
                                   PipelineOptions options)
    : schedule_(std::move(schedule)), options_(std::move(options)) {
  prepare(std::move(stages), communicator);
}

void PipelineSchedule::prepare(std::vector<StagePtr> stages, Communicator& communicator) {
  options_.world_ranks = ranks_or_all(options_, communicator);
  const auto& ranks = options_.world_ranks;
  const int pp = static_cast<int>(ranks.size());
  if (schedule_.pp() != pp) throw_error("schedule {} is for {} ranks, not {}", schedule_.name, schedule_.pp(), pp);
  const auto mine = std::find(ranks.begin(), ranks.end(), communicator.transport().rank());
  if (mine == ranks.end()) throw_error("rank {} is not in the pipeline", communicator.transport().rank());
  const PipelineRank rank(static_cast<int>(mine - ranks.begin()));

  const std::vector<StageId> expected = schedule_.placement.stages_of(rank);
  if (stages.size() != expected.size()) {
    throw_error("schedule {} has {} stages a rank, but rank {} gives {}", schedule_.name, expected.size(), rank,
                stages.size());
  }
  for (std::size_t chunk = 0; chunk < stages.size(); ++chunk) {
    if (stages[chunk]->stage() == expected[chunk] && stages[chunk]->num_stages() == schedule_.num_stages()) continue;
    throw_error("chunk {} of rank {} is stage {} of {}, but schedule {} wants stage {} of {} there", chunk, rank,
                stages[chunk]->stage(), stages[chunk]->num_stages(), schedule_.name, expected[chunk],
                schedule_.num_stages());
  }
  if (!is_lowered(schedule_)) lower_schedule(schedule_, options_.passes);
  verify_schedule_or_throw(schedule_);
  executor_ = std::make_unique<Executor>(schedule_, PipelineRanks{&communicator.transport(), rank, ranks},
                                         std::move(stages), options_.executor);
  if (!options_.passes.overlap_b_f) return;
  pairs_ = std::make_unique<OverlappedPairs>(communicator.transport(), options_.executor.timeout_s);
  executor_->register_custom_function(MetaStepType::OVERLAP_B_F, pairs_->function());
}

std::vector<Microbatch> PipelineSchedule::microbatches(const TensorList& args, const TensorMap& kwargs) {
  const int m = schedule_.num_microbatches;
  std::vector<MicrobatchInputs> parts = split_batch(args, kwargs, options_.batch_dims, m);
  std::vector<Microbatch> result(parts.size());
  for (int i = 0; i < m; ++i) {
    Microbatch& microbatch = result[static_cast<std::size_t>(i)];
    microbatch.step = step_;
    microbatch.index = i;
    microbatch.global_index = i;
    microbatch.first_sample = i;
    microbatch.loss_scale = options_.loss_scale;
    microbatch.args = std::move(parts[static_cast<std::size_t>(i)].args);
    microbatch.kwargs = std::move(parts[static_cast<std::size_t>(i)].kwargs);
  }
  return result;
}

std::vector<MicrobatchLoss> PipelineSchedule::run(const TensorList& args, const TensorMap& kwargs) {
  std::vector<MicrobatchLoss> losses = executor_->run(microbatches(args, kwargs)).losses;
  ++step_;
  return losses;
}

std::vector<TensorList> PipelineSchedule::run_forward(const TensorList& args, const TensorMap& kwargs) {
  return executor_->run_forward(microbatches(args, kwargs)).outputs;
}

void PipelineSchedule::register_custom_function(MetaStepType type, CustomFunction function) {
  executor_->register_custom_function(type, std::move(function));
}

ScheduleGPipe::ScheduleGPipe(StagePtr stage, int micro_batch_num, Communicator& communicator, PipelineOptions options)
    : PipelineSchedule("gpipe", {std::move(stage)}, micro_batch_num, communicator, std::move(options)) {}

Schedule1F1B::Schedule1F1B(StagePtr stage, int micro_batch_num, Communicator& communicator, PipelineOptions options)
    : PipelineSchedule("1f1b", {std::move(stage)}, micro_batch_num, communicator, std::move(options)) {}

ScheduleInterleaved1F1B::ScheduleInterleaved1F1B(std::vector<StagePtr> stages, int micro_batch_num,
                                                 Communicator& communicator, bool overlap_p2p, bool overlap_b_f,
                                                 PipelineOptions options)
    : PipelineSchedule("interleaved_1f1b", std::move(stages), micro_batch_num, communicator,
                       with_overlap(std::move(options), overlap_p2p, overlap_b_f)) {}

}  // namespace ppctl
