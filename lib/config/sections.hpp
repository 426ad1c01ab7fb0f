#pragma once

#include "config/map_reader.hpp"

namespace ppctl {

/// Readers of the job's sections: from the map of the whole job into the plain structs. Each reports what is wrong with
/// single values; check_job judges how they fit together.
void read_job(MapReader& job, JobConfig& config, const ScheduleRules& schedules);

void read_model(MapReader& job, ModelConfig& model);
void read_data(MapReader& job, DataConfig& data);
void read_batch(MapReader& job, BatchConfig& batch);
void read_parallel(MapReader& job, ParallelConfig& parallel);
void read_pipeline(MapReader& job, PipelineConfig& pipeline, const ScheduleRules& schedules);
/// REQUIRES of the body: a schedule of its own, by its name.
void read_mpipe(MapReader& job, MpipeConfig& mpipe, const ScheduleRules& schedules);
void read_fsdp(MapReader& job, FsdpConfig& fsdp);
void read_precision(MapReader& job, PrecisionConfig& precision);
void read_recompute(MapReader& job, RecomputeConfig& recompute);
void read_swap(MapReader& job, SwapConfig& swap);
void read_link(MapReader& job, LinkConfig& link);
void read_optimizer(MapReader& job, OptimizerConfig& optimizer);
void read_lr_schedule(MapReader& job, LrScheduleConfig& lr_schedule);
void read_checkpoint(MapReader& job, CheckpointConfig& checkpoint);
void read_eval(MapReader& job, EvalConfig& eval);
void read_log(MapReader& job, LogConfig& log);
void read_sample(MapReader& job, SampleConfig& sample);

/// Reports combinations that cannot work. Keys whose own values are faulty are left out of the judgement.
void check_job(const JobConfig& config, const ScheduleRules& schedules, JobUse use, ReadContext& context);

}  // namespace ppctl
