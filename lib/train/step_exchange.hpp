#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.hpp"
#include "comm/transport.hpp"
#include "runtime/step_result.hpp"
#include "train/memory_watch.hpp"

namespace ppctl {

/// What one rank knows of a microbatch.
struct MicrobatchPart {
  bool has_loss = false;  ///< this rank ran its last stage
  LossReport loss;
  MicrobatchTimes times;
};

/// What one rank tells the others at the end of a step's backwards.
struct StepPart {
  bool stop_requested = false;               ///< the user asked this rank to end
  bool save_ready = true;                    ///< CheckpointStore::ready()
  double memory_mib = 0.0;                   ///< resident set
  MemoryPart memory;                         ///< of tensors; zero where they are not measured
  double busy_ms = 0.0;                      ///< in compute steps
  double span_ms = 0.0;                      ///< from the schedule's first step to its last
  std::vector<double> squared_norms;         ///< GradNorm's slots
  std::vector<MicrobatchPart> microbatches;  ///< of this rank's replica, all batches of the step
};

/// The one collective of a step's end: everything that ranks must know of each other (squared norms, the wish to stop)
/// and that rank 0 reports (losses, times, memory) travels together, as numbers of one length a rank.
class StepExchange {
 public:
  /// `world` must outlive the object; `num_norms` and `num_microbatches` are the same on every rank.
  StepExchange(Group& world, std::size_t num_norms, std::size_t num_microbatches);

  /// COLLECTIVE over the world. Returns every rank's part, by rank.
  const std::vector<StepPart>& gather(const StepPart& mine, Deadline deadline);

  /// The same in two parts, between which a rank may compute. `mine` is taken at once.
  void start(const StepPart& mine);
  const std::vector<StepPart>& finish(Deadline deadline);

  /// The squared norms of all ranks as GradNorm::combine() takes them.
  std::span<const double> norms() const { return std::span(received_).subspan(kHeader); }
  std::size_t stride() const { return stride_; }

 private:
  static constexpr std::size_t kHeader = 8;
  static constexpr std::size_t kPerMicrobatch = 7;

  void pack(const StepPart& part);
  void unpack(std::span<const double> from, StepPart& part) const;

  Group& world_;
  std::size_t num_norms_;
  std::size_t num_microbatches_;
  std::size_t stride_;
  std::vector<double> sent_;
  std::vector<double> received_;
  std::vector<StepPart> parts_;
  RequestPtr started_;
};

}  // namespace ppctl
