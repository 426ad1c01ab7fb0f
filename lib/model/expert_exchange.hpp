#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/aten.hpp"

namespace ppctl {

/// How many rows travel between the ranks of an expert-parallel group, as one of them sees it. Experts are spread over
/// the group in blocks: rank r holds the experts r · n .. r · n + n − 1, n of them on each rank.
struct ExpertCounts {
  std::vector<std::int64_t> routed;  ///< by expert, of the whole model: rows of this rank's tokens that go to it
  std::vector<std::int64_t> held;    ///< [rank][expert held here]: rows of that rank's tokens that come here
};

/// One all-to-all of a mixture-of-experts layer.
///
/// Two orders of rows exist. On the side of the tokens, "routed": sorted by expert, and within an expert by token. On
/// the side of the experts, "held": sorted by the experts held here, within an expert by the rank that the rows come
/// from, and within a rank in its order. kDispatch and kCombineBackward bring routed rows to where they are held;
/// kCombine and kDispatchBackward bring held rows back to where they were routed.
struct ExpertTransfer {
  enum class Operation : std::uint8_t { kDispatch, kCombine, kCombineBackward, kDispatchBackward };

  Operation operation = Operation::kDispatch;
  /// The layer is the last one with experts of its stage, in the order of the forward, whatever the operation.
  bool is_last_layer = false;
  /// A forward that is run again, by the thread of the backward.
  bool is_recomputed = false;
  at::Tensor rows;  ///< [rows, width], contiguous; must not change before the wait is over
  /// For kDispatch `held` is empty: it is not known yet, and travels first.
  ExpertCounts counts;
};

/// What an exchange brings.
struct ExpertRows {
  at::Tensor rows;      ///< [rows, width], in the other order
  ExpertCounts counts;  ///< complete
};

/// An exchange that was started. It is waited for once, by the thread that started it, or dropped while an exception
/// unwinds.
class PendingExchange {
 public:
  virtual ~PendingExchange() = default;
  /// Blocks until the rows are here. Throws Error when a deadline passes or a rank fails.
  virtual ExpertRows wait() = 0;
};

/// Brings tokens to experts and back. A layer calls start() as soon as the rows are there and wait() where it needs the
/// result; what lies between runs beside the exchange. A decorator may do something at either.
///
/// start() is COLLECTIVE over the expert-parallel group: its ranks run the same schedule, so each of the three kinds of
/// exchanges (of forwards, of backwards, of recomputed forwards) is started in the same order by all of them. The kinds
/// are independent of each other: one thread may run a forward while another runs a backward.
class ExpertExchange {
 public:
  virtual ~ExpertExchange() = default;
  /// Launches the transfer and returns; does not wait for other ranks.
  virtual std::unique_ptr<PendingExchange> start(ExpertTransfer transfer) = 0;
};

}  // namespace ppctl
