#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/links.hpp"
#include "schedule/verifier/fault_list.hpp"

namespace ppctl {

/// What can be proved of a rank by its own steps in their order: each chunk computed once and in the order F, dx, dw;
/// inputs received, or computed, before use; outputs sent after they are made; parameters gathered when used and
/// gradients reduced after the last one; activations in memory when used. REQUIRES: find_misplaced_step found nothing.
class RankChecker {
 public:
  RankChecker(const Schedule& schedule, const StageLinks& links, const VerifyOptions& options, FaultList& faults);

  /// Reads a rank's steps. Each rank once, in any order.
  void check(int rank);
  /// After all ranks: what should have been there and was not.
  void check_complete();

  /// Of the rank checked last: most activations in memory at once.
  int peak_chunks() const { return peak_; }
  /// Of all ranks checked so far.
  bool backward_in_order() const { return backward_in_order_; }

 private:
  enum class Parameters : std::uint8_t { kUnknown, kSharded, kUnsharded };
  struct StageState {
    Parameters parameters = Parameters::kUnknown;
    bool gradient_pending = false;
    int last_input_gradient = -1;   ///< microbatch
    int last_weight_gradient = -1;  ///< microbatch
  };

  void begin(int rank);
  void end();
  void check_step(MetaStep step);
  void check_compute(MetaStep part);
  void apply_compute(MetaStep part);
  void check_forward_input(MetaStep part);
  void check_backward_input(MetaStep part);
  void check_resident(MetaStep part);
  void check_p2p(MetaStep part);
  void check_parameters(MetaStep step);
  void check_activation(MetaStep step);
  void add_alive(int change);
  void fault(std::string reason);
  std::uint16_t& state_of(MetaStep part) { return state_[links_.key(part.stage_value(), part.microbatch_value())]; }

  const Schedule& schedule_;
  const StageLinks& links_;
  VerifyOptions options_;
  FaultList& faults_;
  std::vector<std::uint16_t> state_;  ///< flags of (stage, microbatch)
  std::vector<StageState> stages_;    ///< by stage, of the rank being checked
  int rank_ = 0;
  std::size_t step_number_ = 0;
  int alive_ = 0;
  int peak_ = 0;
  bool backward_in_order_ = true;
};

}  // namespace ppctl
