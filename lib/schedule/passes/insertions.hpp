#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "schedule/links.hpp"

namespace ppctl {

/// Steps to be put directly before certain beats of a rank: after everything else that stands between that beat and the
/// one before.
class Insertions {
 public:
  /// Puts `step` before beat number `beat`, or at the rank's end if there are no more beats. REQUIRES: beats in
  /// ascending order; steps of one beat keep the order in which they were added.
  void add(std::size_t beat, MetaStep step) { steps_.emplace_back(beat, step); }

  void apply(RankSteps& rank) const {
    std::vector<MetaStep> out;
    out.reserve(rank.steps.size() + steps_.size());
    auto next = steps_.begin();
    std::size_t beat = 0;
    for (const MetaStep step : rank.steps) {
      if (is_beat(step.type())) {
        for (; next != steps_.end() && next->first <= beat; ++next) out.push_back(next->second);
        ++beat;
      }
      out.push_back(step);
    }
    for (; next != steps_.end(); ++next) out.push_back(next->second);
    rank.steps = std::move(out);
  }

 private:
  std::vector<std::pair<std::size_t, MetaStep>> steps_;
};

/// The beats of a rank in their order.
inline std::vector<MetaStep> beats_of(const RankSteps& rank) {
  std::vector<MetaStep> beats;
  for (const MetaStep step : rank.steps) {
    if (is_beat(step.type())) beats.push_back(step);
  }
  return beats;
}

}  // namespace ppctl
