#include "shard/group_expert_exchange.hpp"

#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.hpp"

namespace ppctl {
namespace {

using Operation = ExpertTransfer::Operation;

/// Whether rows go from where they are routed to where they are held.
bool goes_to_experts(Operation operation) {
  return operation == Operation::kDispatch || operation == Operation::kCombineBackward;
}

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::kDispatch:
      return "dispatch to experts";
    case Operation::kCombine:
      return "combine from experts";
    case Operation::kCombineBackward:
      return "backward of the combine";
    case Operation::kDispatchBackward:
      return "backward of the dispatch";
  }
  return "?";
}

std::int64_t sum_of(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

/// Where the rows of each rank lie in both orders.
class RowPlaces {
 public:
  RowPlaces(const Group& group, std::int64_t row_bytes) : ranks_(group.size()), row_bytes_(row_bytes) {}

  /// The routed rows that belong to the experts of each rank: one piece.
  template <class Bytes>
  std::vector<std::vector<Bytes>> routed(const at::Tensor& rows, const std::vector<std::int64_t>& counts) const {
    const std::size_t experts = counts.size() / static_cast<std::size_t>(ranks_);
    std::vector<std::vector<Bytes>> pieces(static_cast<std::size_t>(ranks_));
    std::int64_t first = 0;
    for (std::size_t rank = 0; rank < pieces.size(); ++rank) {
      const auto begin = counts.begin() + static_cast<std::ptrdiff_t>(rank * experts);
      const std::int64_t size = std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(experts), std::int64_t{0});
      add(rows, first, size, pieces[rank]);
      first += size;
    }
    return pieces;
  }

  /// The held rows that come from each rank: a piece for each expert.
  template <class Bytes>
  std::vector<std::vector<Bytes>> held(const at::Tensor& rows, const std::vector<std::int64_t>& counts) const {
    const std::size_t experts = counts.size() / static_cast<std::size_t>(ranks_);
    std::vector<std::vector<Bytes>> pieces(static_cast<std::size_t>(ranks_));
    std::int64_t first = 0;
    for (std::size_t expert = 0; expert < experts; ++expert) {
      for (std::size_t rank = 0; rank < pieces.size(); ++rank) {
        const std::int64_t size = counts[rank * experts + expert];
        add(rows, first, size, pieces[rank]);
        first += size;
      }
    }
    return pieces;
  }

 private:
  template <class Bytes>
  void add(const at::Tensor& rows, std::int64_t first, std::int64_t size, std::vector<Bytes>& pieces) const {
    auto* data = static_cast<std::byte*>(rows.data_ptr()) + first * row_bytes_;
    if (size > 0) pieces.push_back({data, static_cast<std::size_t>(size * row_bytes_)});
  }

  int ranks_;
  std::int64_t row_bytes_;
};

/// Both lists hold the same bytes, cut in different places.
void copy_pieces(const std::vector<ConstBytes>& from, const std::vector<MutableBytes>& to) {
  std::size_t next = 0;
  std::size_t used = 0;
  for (const ConstBytes& piece : from) {
    for (std::size_t done = 0; done < piece.size;) {
      const std::size_t size = std::min(piece.size - done, to[next].size - used);
      std::memcpy(to[next].data + used, piece.data + done, size);
      done += size;
      used += size;
      if (used == to[next].size) {
        ++next;
        used = 0;
      }
    }
  }
}

class PendingTransfer final : public PendingExchange {
 public:
  PendingTransfer(Group& group, ExpertTransfer transfer, double timeout_s)
      : group_(group),
        transfer_(std::move(transfer)),
        deadline_(Deadline::after_seconds(timeout_s)),
        places_(group, transfer_.rows.size(1) * static_cast<std::int64_t>(transfer_.rows.element_size())) {
    PPCTL_CHECK(transfer_.rows.is_contiguous(), "rows must be contiguous");
    ExpertCounts& counts = transfer_.counts;
    if (transfer_.operation == Operation::kDispatch) start_counts();
    const bool to_experts = goes_to_experts(transfer_.operation);
    PPCTL_CHECK_EQ(transfer_.rows.size(0), sum_of(to_experts ? counts.routed : counts.held));
    send_ = to_experts ? places_.routed<ConstBytes>(transfer_.rows, counts.routed)
                       : places_.held<ConstBytes>(transfer_.rows, counts.held);
    sent_ = group_.send_pieces(send_);
  }

  ExpertRows wait() override {
    const char* what = name_of(transfer_.operation);
    if (counts_under_way_ != nullptr) counts_under_way_->wait(deadline_, what);
    const bool to_experts = goes_to_experts(transfer_.operation);
    const ExpertCounts& counts = transfer_.counts;
    const at::Tensor rows =
        at::empty({sum_of(to_experts ? counts.held : counts.routed), transfer_.rows.size(1)}, transfer_.rows.options());
    const auto receive =
        to_experts ? places_.held<MutableBytes>(rows, counts.held) : places_.routed<MutableBytes>(rows, counts.routed);
    const RequestPtr received = group_.receive_pieces(sent_, receive);
    const auto own = static_cast<std::size_t>(group_.rank());
    copy_pieces(send_[own], receive[own]);
    received->wait(deadline_, what);
    sent_.request->wait(deadline_, what);
    return {rows, std::move(transfer_.counts)};
  }

 private:
  void start_counts() {
    ExpertCounts& counts = transfer_.counts;
    counts.held.resize(counts.routed.size());
    const auto bytes = std::as_bytes(std::span(counts.routed));
    const auto places = std::as_writable_bytes(std::span(counts.held));
    const std::vector<std::size_t> sizes(static_cast<std::size_t>(group_.size()),
                                         bytes.size() / static_cast<std::size_t>(group_.size()));
    counts_under_way_ = group_.all_to_all({bytes.data(), bytes.size()}, sizes, {places.data(), places.size()}, sizes);
  }

  Group& group_;
  ExpertTransfer transfer_;
  Deadline deadline_;
  RowPlaces places_;
  std::vector<std::vector<ConstBytes>> send_;
  RequestPtr counts_under_way_;
  SentPieces sent_;
};

}  // namespace

GroupExpertExchange::GroupExpertExchange(Communicator& communicator, std::span<const int> ranks, double timeout_s)
    : forward_(communicator.group(ranks, "experts forward")),
      backward_(communicator.group(ranks, "experts backward")),
      recompute_(communicator.group(ranks, "experts recomputed")),
      timeout_s_(timeout_s) {}

Group& GroupExpertExchange::group_for(const ExpertTransfer& transfer) const {
  if (transfer.is_recomputed) return *recompute_;
  const bool is_forward = transfer.operation == Operation::kDispatch || transfer.operation == Operation::kCombine;
  return is_forward ? *forward_ : *backward_;
}

std::unique_ptr<PendingExchange> GroupExpertExchange::start(ExpertTransfer transfer) {
  Group& group = group_for(transfer);
  return std::make_unique<PendingTransfer>(group, std::move(transfer), timeout_s_);
}

}  // namespace ppctl
