#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/model_spec.hpp"
#include "config/job_config.hpp"

namespace ppctl {

/// One way to run the encoder of a multimodal job.
struct MpipeWay {
  MpipeConfig mpipe;  ///< not enabled: its layers are those of the first stages
  double step_ms = 0;
  std::int64_t peak_bytes = 0;  ///< on the worst rank
};

/// The job with what was left to be chosen, and what that was chosen from.
struct MpipeChoice {
  JobConfig job;
  std::vector<MpipeWay> ways;  ///< those that fit in memory_gib first, then the fastest first
  bool fits = true;            ///< the first one in memory_gib

  bool was_asked() const { return !ways.empty(); }
};

/// The ways between which `mpipe: {layers: auto, mode: auto}` chooses: plain, and each number of transposed layers with
/// both modes; `most_layers` numbers at most, evenly spaced.
std::vector<MpipeConfig> mpipe_ways(const JobConfig& job, const ModelSpec& spec, int most_layers);

/// Chooses what `mpipe` leaves open; with `schedule: auto` and no `mpipe`, everything for a multimodal model. Each way
/// is planned and simulated as the job would run it: the fastest that fits in memory_gib is taken; among those as fast
/// (to 0.01 %) the plain one, then the leanest. Loading data counts as nothing. Nothing is chosen, and `ways` is empty,
/// where the job leaves nothing open. Throws Error where the job can run in no way.
MpipeChoice choose_mpipe(const JobConfig& job);

/// One line for the log: what was chosen, and what the runner-up would take.
std::string mpipe_choice_line(const MpipeChoice& choice);
/// A table of the best few, and of the plain way.
std::string mpipe_choice_table(const MpipeChoice& choice);
/// "none", or "{layers: all, mode: just_in_time}".
std::string mpipe_name(const MpipeConfig& mpipe);
/// As the job file has it; empty for the plain way.
std::string mpipe_yaml(const MpipeConfig& mpipe);

}  // namespace ppctl
