#pragma once

#include "config/load.hpp"
#include "schedule/generator.hpp"
#include "schedule/pass.hpp"
#include "schedule/schedule.hpp"
#include "simulate/cost_model.hpp"

namespace ppctl {

/// What a job's pipeline section asks of the generators. REQUIRES: the schedule is not read from a file.
ScheduleSpec schedule_spec(const JobConfig& job);
/// The passes that lower a job's schedule of that placement. With mpipe the model says what its encoder costs beside
/// the stages. Throws Error.
PassOptions pass_options(const JobConfig& job, const Placement& placement);

/// The very schedule that a job runs: generated, or read from its file, then lowered where it is not executable
/// already, and proved by the verifier. `costs` (one a stage) matter to schedules that look at them; empty: all stages
/// alike. Throws Error.
Schedule schedule_of_job(const JobConfig& job, const std::vector<ChunkCosts>& stage_costs = {});

/// What schedules that look at costs see of a job's stages: times by the operations of its model. Empty where the
/// schedule does not look at them. Throws Error.
std::vector<ChunkCosts> stage_costs_of_job(const JobConfig& job);

/// The links of a job, as the pipeline of its first replica sees them.
void set_job_links(const JobConfig& job, CostModel& costs);

/// The placement of the job's schedule. REQUIRES: the schedule is a generator's. Throws Error for an unknown one.
Placement placement_of_job(const JobConfig& job);

/// The generator of that name. Throws Error with what was probably meant.
const GeneratorInfo& generator_or_throw(const std::string& name);
/// A schedule from a CSV file, as it stands there. Throws Error with file:line:column.
Schedule read_schedule_file(const std::string& file);
/// Throws Error where a schedule that is executable as it stands has steps of MPipe that the job does not ask for, or
/// the other way round. `file` is where it was read from.
void check_encoder_steps(const Schedule& schedule, const JobConfig& job, const std::string& file);
/// Whether the steps are those of a generator: compute steps and pairs of them, no communication.
bool is_compute_only(const Schedule& schedule);

/// What lib/config needs to know of the schedules.
ScheduleRules schedule_rules();

}  // namespace ppctl
