#include "overlap/comm_compute_overlap.hpp"

#include "base/error.hpp"

namespace ppctl {
namespace {

/// The hooks around an exchange, in the order in which a side comes by them.
struct HookNames {
  std::string_view before;
  std::string_view after;
};

HookNames names_of(ExchangeKind kind, OverlapSide side, bool is_recomputed) {
  const bool dispatch = kind == ExchangeKind::kDispatch;
  if (is_recomputed) {
    return dispatch ? HookNames{"A (before a dispatch that is run again)", "B (after a dispatch that is run again)"}
                    : HookNames{"C (before a combine that is run again)", "D (after a combine that is run again)"};
  }
  if (side == OverlapSide::kForward) {
    return dispatch ? HookNames{"A (before the dispatch)", "B (before the experts)"}
                    : HookNames{"C (before the combine)", "D (after the combine)"};
  }
  return dispatch ? HookNames{"B (before the dispatch's backward)", "A (after the dispatch's backward)"}
                  : HookNames{"D (before the combine's backward)", "C (before the experts' backward)"};
}

std::string failure_text(OverlapSide side, const std::string& reason) {
  return fmt::format("the {} of the pair failed: {}", to_string(side), reason);
}

}  // namespace

ExchangeHooks::~ExchangeHooks() {
  if (overlap_ != nullptr) overlap_->at(side_).in_exchange = false;
}

void ExchangeHooks::launched() {
  if (overlap_ == nullptr) return;
  // The forward's last exchange: what comes after it waits for nobody.
  meets_ ? overlap_->coordinator_.launched(side_) : overlap_->coordinator_.leave(side_);
}

void ExchangeHooks::before_wait() {
  CommComputeOverlap* overlap = std::exchange(overlap_, nullptr);
  if (overlap == nullptr) return;
  overlap->at(side_).in_exchange = false;
  if (meets_) overlap->coordinator_.meet(side_, HookRole::COMPUTE, hook_);
}

ExchangeHooks CommComputeOverlap::begin_exchange(ExchangeKind kind, std::optional<bool> is_last_layer,
                                                 bool is_recomputed) {
  const std::optional<OverlapSide> side = coordinator_.side_of_this_thread();
  if (!side || at(*side).in_exchange) return {};
  Side& mine = at(*side);
  const int index = mine.exchanges++;
  mine.in_exchange = true;
  const HookNames names = names_of(kind, *side, is_recomputed);
  ExchangeHooks hooks(*this, *side, names.after);
  const bool is_first_of_backward = *side == OverlapSide::kBackward && index == 0;
  if (!is_first_of_backward) coordinator_.meet(*side, HookRole::COMM, names.before);
  if (*side == OverlapSide::kForward && kind == ExchangeKind::kCombine) {
    hooks.meets_ = !is_last_layer.value_or(window_.forward_exchanges == index + 1);
  }
  return hooks;
}

void CommComputeOverlap::run_side(OverlapSide side, const std::function<void()>& body) {
  coordinator_.join(side);
  try {
    body();
    coordinator_.leave(side);
  } catch (const std::exception& error) {
    at(side).text = error.what();
    note_failure(side);
  } catch (...) {
    at(side).text = "an unknown exception";
    note_failure(side);
  }
}

void CommComputeOverlap::note_failure(OverlapSide side) {
  Side& mine = at(side);
  mine.error = std::current_exception();
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = !first_failed_;
    if (first) first_failed_ = side;
  }
  coordinator_.fail(side, mine.text);
  if (first && options_.on_failure) options_.on_failure(failure_text(side, mine.text));
}

CommComputeOverlap::Counts CommComputeOverlap::run(const std::function<void()>& forward,
                                                   const std::function<void()>& backward, OverlapWindow window) {
  coordinator_.open();
  window_ = window;
  sides_ = {};
  first_failed_.reset();
  if (window.forward_exchanges == 0 || window.backward_exchanges == 0) {
    coordinator_.leave(OverlapSide::kForward);
    coordinator_.leave(OverlapSide::kBackward);
  }
  worker_.start([&] { run_side(OverlapSide::kForward, forward); });
  run_side(OverlapSide::kBackward, backward);
  worker_.wait();
  coordinator_.close();
  if (first_failed_) report();
  return {at(OverlapSide::kForward).exchanges, at(OverlapSide::kBackward).exchanges};
}

void CommComputeOverlap::report() const {
  const OverlapSide other = first_failed_ == OverlapSide::kForward ? OverlapSide::kBackward : OverlapSide::kForward;
  const Side& first = sides_[static_cast<std::size_t>(*first_failed_)];
  const Side& second = sides_[static_cast<std::size_t>(other)];
  std::string text = failure_text(*first_failed_, first.text);
  text += second.error ? fmt::format("; and its {}: {}", to_string(other), second.text)
                       : fmt::format("; its {} was done", to_string(other));
  try {
    std::rethrow_exception(first.error);
  } catch (const Bug&) {
    throw Bug(text);
  } catch (...) {
    throw Error(text);
  }
}

}  // namespace ppctl
