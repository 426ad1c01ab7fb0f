#include "runtime/overlapped_exchange.hpp"

#include <utility>

namespace ppctl {
namespace {

class OverlappedPending final : public PendingExchange {
 public:
  OverlappedPending(ExchangeHooks hooks, std::unique_ptr<PendingExchange> below)
      : hooks_(std::move(hooks)), below_(std::move(below)) {}

  ExpertRows wait() override {
    hooks_.before_wait();
    return below_->wait();
  }

 private:
  ExchangeHooks hooks_;
  std::unique_ptr<PendingExchange> below_;
};

bool belongs_to_dispatch(ExpertTransfer::Operation operation) {
  return operation == ExpertTransfer::Operation::kDispatch || operation == ExpertTransfer::Operation::kDispatchBackward;
}

}  // namespace

std::unique_ptr<PendingExchange> OverlappedExchange::start(ExpertTransfer transfer) {
  const ExchangeKind kind = belongs_to_dispatch(transfer.operation) ? ExchangeKind::kDispatch : ExchangeKind::kCombine;
  ExchangeHooks hooks = overlap_.begin_exchange(kind, transfer.is_last_layer, transfer.is_recomputed);
  std::unique_ptr<PendingExchange> pending = below_.start(std::move(transfer));
  hooks.launched();
  return std::make_unique<OverlappedPending>(std::move(hooks), std::move(pending));
}

}  // namespace ppctl
