#pragma once

#include <memory>
#include <string>
#include <vector>

#include "train/records.hpp"
#include "train/samples.hpp"

namespace ppctl::parity {

/// What a run logged, microbatches in the order of their numbers.
struct TrainingRun {
  std::vector<StepRecord> steps;
  std::vector<MicrobatchRecord> microbatches;
  std::vector<std::string> messages;
};

/// Trains the job configs/parity/`name`.yaml with `sets` on top, its ranks as threads of this process.
TrainingRun train(const std::string& name, const std::vector<std::string>& sets = {},
                  std::shared_ptr<const SampleSource> samples = nullptr);

/// Losses and norms in full, one line a record: equal texts are equal to the last bit.
std::string bits(const TrainingRun& run);

/// Checks a run against tests/data/parity/`name`/reference.json, within a relative deviation.
void expect_reference(const TrainingRun& run, const std::string& name, double tolerance);

}  // namespace ppctl::parity
