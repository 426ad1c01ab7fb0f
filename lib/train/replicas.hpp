#pragma once

#include <memory>
#include <vector>

#include "base/clock.hpp"
#include "comm/transport.hpp"
#include "model/parameters.hpp"

namespace ppctl {

/// Replicas of the model that see different data (dp_replicate): after the backwards of a step their gradients are
/// summed, in the order of the replicas, so that all make the same update.
class GradReplicas {
 public:
  /// `group`: the ranks with the same stages, by replica; null where there is one replica alone. The parameter groups
  /// must outlive the object.
  GradReplicas(std::unique_ptr<Group> group, std::vector<ParameterGroup*> parameters);

  /// COLLECTIVE over the replicas.
  void sum_grads(Deadline deadline);

 private:
  std::unique_ptr<Group> group_;
  std::vector<ParameterGroup*> parameters_;
};

}  // namespace ppctl
