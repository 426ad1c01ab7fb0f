#pragma once

#include <vector>

#include "schedule/schedule.hpp"

namespace ppctl::test {

/// A schedule with MPipe's steps in which every backward of the encoder is divided. Each rank's weight halves are its
/// last steps, the newest microbatch's first, so that all of them wait at once.
inline Schedule with_divided_encoder(Schedule schedule) {
  for (RankSteps& rank : schedule.ranks) {
    std::vector<MetaStep> weights;
    for (MetaStep& step : rank.steps) {
      if (step.type() != MetaStepType::PREPROCESS_BACKWARD) continue;
      weights.emplace_back(MetaStepType::PREPROCESS_BACKWARD_WEIGHT, step.stage(), step.microbatch());
      step = MetaStep(MetaStepType::PREPROCESS_BACKWARD_INPUT, step.stage(), step.microbatch());
    }
    rank.steps.insert(rank.steps.end(), weights.rbegin(), weights.rend());
  }
  return schedule;
}

}  // namespace ppctl::test
