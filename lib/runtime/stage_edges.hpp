#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "comm/edge.hpp"
#include "model/tensors.hpp"

namespace ppctl {

class BatchRequest;

/// A list of tensors on its way from a stage to the next (activations) or to the one before (gradients).
struct Transfer {
  bool gradient = false;
  int receiving_stage = 0;
  int microbatch = 0;
  int peer = 0;  ///< pipeline rank of the other end
};

/// A receive that was posted, or nothing.
class PendingTensors {
 public:
  PendingTensors() = default;
  PendingTensors(EdgeReceiver& receiver, std::int64_t tag, int peer, std::shared_ptr<BatchRequest> batch)
      : receiver_(&receiver), tag_(tag), peer_(peer), batch_(std::move(batch)) {}

  bool valid() const { return receiver_ != nullptr; }
  int peer() const { return peer_; }
  /// Blocks until the tensors are there and gives them; empty afterwards. They own their memory. Throws Error that
  /// names rank and peer, and says `context`, when the deadline passes or the peer died.
  TensorList wait(Deadline deadline, std::string_view context);

 private:
  EdgeReceiver* receiver_ = nullptr;
  std::int64_t tag_ = 0;
  int peer_ = -1;
  std::shared_ptr<BatchRequest> batch_;  ///< that the receive is part of; null for a receive of its own
};

/// All edges between this rank and the other ranks of its pipeline. For one thread, except that receives may be waited
/// for by several at once, and beside all other calls. Number, types and shapes of the tensors may change
/// with every message; an undefined tensor travels as a flag. Types: float32, float64, bfloat16, int64, uint8; others
/// are an Error.
class StageEdges {
 public:
  /// `world_ranks` by pipeline rank. Edges with different tag spaces do not disturb each other.
  StageEdges(Transport& transport, std::vector<int> world_ranks, int num_stages, int num_microbatches, int tag_space);

  /// Starts a send; keeps the tensors until it is complete. Inside a batch: adds it to the batch.
  void send(const Transfer& transfer, TensorList tensors);
  /// Posts a receive, at most one for each transfer at a time. Inside a batch: adds it to the batch.
  PendingTensors post(const Transfer& transfer);

  /// What follows, up to start_batch, is started as one grouped operation.
  void begin_batch();
  void start_batch();

  /// Memory of all receive buffers, in use or not.
  std::size_t receive_buffer_bytes() const;
  /// Waits until every send is complete.
  void finish_sends(Deadline deadline, std::string_view context);

 private:
  /// A send and the memory that it reads.
  struct InFlight {
    std::shared_ptr<Request> request;
    TensorList tensors;
  };

  std::int64_t tag_of(const Transfer& transfer) const;
  EdgeSender& sender(int peer);
  EdgeReceiver& receiver(int peer);
  /// Keeps a send until it is complete, and lets go of those that are.
  void keep(InFlight send);

  Transport& transport_;
  std::vector<int> world_ranks_;
  std::int64_t num_stages_;
  std::int64_t num_microbatches_;
  std::int64_t tag_space_;
  std::vector<std::unique_ptr<EdgeSender>> senders_;      ///< by pipeline rank
  std::vector<std::unique_ptr<EdgeReceiver>> receivers_;  ///< by pipeline rank
  std::deque<InFlight> in_flight_;                        ///< oldest first

  // of the batch that is being collected
  bool in_batch_ = false;
  std::vector<P2POp> batch_;
  TensorList batch_tensors_;
  std::shared_ptr<BatchRequest> batch_request_;
};

}  // namespace ppctl
