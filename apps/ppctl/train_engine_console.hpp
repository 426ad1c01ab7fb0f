#pragma once

#include <memory>

#include "config/job_config.hpp"
#include "train/records.hpp"
#include "train/trainer.hpp"

namespace ppctl {

/// What a person sees of a run, on standard error: on a terminal one line that keeps changing, elsewhere a line every
/// log.every steps.
std::unique_ptr<TrainObserver> make_console(const JobConfig& job, bool terminal);

/// The last lines of a run: the final loss, and on standard output the text that the model wrote.
void print_result(const JobConfig& job, const TrainResult& result);

}  // namespace ppctl
