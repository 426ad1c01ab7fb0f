#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "runtime/stage_edges.hpp"
#include "schedule/schedule.hpp"

namespace ppctl {

/// What an executor runs on: a rank's transport and where the ranks of its pipeline are in the job.
struct PipelineRanks {
  Transport* transport = nullptr;  ///< not owned; outlives the executor
  PipelineRank rank;               ///< this rank
  std::vector<int> world_ranks;    ///< by pipeline rank
};

/// A time in which the compute thread waited for a peer; empty where nothing had to be waited for.
struct WaitSpan {
  Nanoseconds start = 0;
  Nanoseconds end = 0;
  PipelineRank peer;
};

/// Brings each stage's outputs to the stage that consumes them: within the rank by handing them over, between ranks
/// over edges. One slot for each kind (activations, gradients), stage of this rank and microbatch. One thread, except
/// that forward and backward of a pair may take and give at once, beside a transfer of either: all these touch
/// different slots.
class TensorRouter {
 public:
  TensorRouter(const Schedule& schedule, const PipelineRanks& ranks, int tag_space);

  /// Forgets what a failed step left.
  void begin_step();

  /// The inputs of a compute step: handed over already, or received; waits for them. `wait` gets how long.
  /// `context` says what the rank is doing, for the message of a wait that fails.
  TensorList take_inputs(MetaStep compute, Deadline deadline, std::string_view context, WaitSpan* wait);
  /// Hands a compute step's outputs to the next stage of this rank, or keeps them for their send.
  void give_outputs(MetaStep compute, TensorList tensors);

  void send(MetaStep step);
  void post(MetaStep step);
  /// All as one grouped operation.
  void batch(std::span<const MetaStep> steps);

  /// What a send is to send, and what a receive got, for those who transfer it themselves.
  TensorList take_outgoing(MetaStep send);
  void give_incoming(MetaStep recv, TensorList tensors);

  std::size_t receive_buffer_bytes() const { return edges_.receive_buffer_bytes(); }

  /// Waits until the peers' transports have all that was sent.
  void finish_sends(Deadline deadline, std::string_view context);

  /// The chunk of a stage of this rank. Throws Error where the rank does not hold it.
  int chunk_of(StageId stage) const;

 private:
  enum Kind : std::uint8_t { kForward = 0, kBackward = 1 };
  struct Slot {
    TensorList tensors;
    PendingTensors pending;
    bool full = false;
  };

  std::size_t index(Kind kind, int stage, int microbatch) const;
  /// Where the inputs of a compute step are, or will be; null where it has none.
  Slot* input_slot(MetaStep compute);
  static Kind kind_of(MetaStepType type);
  Transfer transfer_of(MetaStep step) const;
  int rank_of(int stage, int microbatch) const;
  void fill(Slot& slot, MetaStep step, TensorList tensors);

  Placement placement_;
  int num_microbatches_;
  PipelineRank rank_;
  std::vector<int> chunk_by_stage_;  ///< -1: not on this rank
  StageEdges edges_;
  std::vector<Slot> incoming_;        ///< [kind][chunk][microbatch]
  std::vector<TensorList> outgoing_;  ///< [kind][chunk][microbatch]
};

}  // namespace ppctl
