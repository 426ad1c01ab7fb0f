#pragma once

#include <array>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "overlap/hook_coordinator.hpp"
#include "overlap/worker_thread.hpp"

namespace ppctl {

/// The two exchanges of a mixture-of-experts layer. On the side of a backward: their backwards.
enum class ExchangeKind : std::uint8_t { kDispatch, kCombine };

/// How many exchanges each side of a window has, where that is known. Where one has none, nobody meets. The forward's
/// last one needs no second meeting, so that its end does not wait for the backward's.
struct OverlapWindow {
  std::optional<int> forward_exchanges;
  std::optional<int> backward_exchanges;
};

struct OverlapOptions {
  double timeout_s = 300;  ///< of each meeting
  /// Called once in a window, by the side that fails first, with a text that names it and its reason: ends the waits
  /// for other ranks that the other side may be in (Transport::abort).
  std::function<void(std::string_view)> on_failure;
};

class CommComputeOverlap;

/// One exchange of one side: made before its launch, told when it is launched, and asked before its result is waited
/// for. Does nothing outside of a window.
class ExchangeHooks {
 public:
  ExchangeHooks() = default;
  ExchangeHooks(ExchangeHooks&& from) noexcept
      : overlap_(std::exchange(from.overlap_, nullptr)), side_(from.side_), hook_(from.hook_), meets_(from.meets_) {}
  ExchangeHooks& operator=(ExchangeHooks&& from) = delete;
  ~ExchangeHooks();

  void launched();
  void before_wait();

 private:
  friend class CommComputeOverlap;
  ExchangeHooks(CommComputeOverlap& overlap, OverlapSide side, std::string_view hook)
      : overlap_(&overlap), side_(side), hook_(hook) {}

  CommComputeOverlap* overlap_ = nullptr;
  OverlapSide side_ = OverlapSide::kForward;
  std::string_view hook_;  ///< of the second meeting
  bool meets_ = true;      ///< whether there is a second meeting
};

/// Runs the forward of one microbatch and the backward of another on two threads, so that the exchanges of each travel
/// beside the compute of the other. Around every exchange of a layer there are two hooks: A before its dispatch, B
/// before the experts, C before the combine, D after it, and the backward comes by them from D to A. At each the sides
/// meet (HookCoordinator):
///
///   forward   A COMM, B COMPUTE, C COMM, D COMPUTE, next layer
///   backward  D COMM, C COMPUTE, B COMM, A COMPUTE, layer before
///
/// The backward's first hook meets nobody, so that the forward's A is with the backward's C; nor does the D of the
/// forward's last layer. What each side says in turn is COMM, COMPUTE, COMM, ... whatever its number of layers and
/// exchanges, so unequal numbers and forwards that are run again inside of a backward fit: the n-th meeting always has
/// one of each, and the side with more of them ends alone.
///
/// For one owner, which calls run(); what wrap_ functions and begin_exchange() give is for any thread and does nothing
/// on those that are no side of a window.
class CommComputeOverlap {
 public:
  explicit CommComputeOverlap(OverlapOptions options)
      : options_(std::move(options)), coordinator_(options_.timeout_s) {}

  /// Exchanges that a window had.
  struct Counts {
    int forward = 0;
    int backward = 0;
  };

  /// Blocks until both have ended; the backward runs on the calling thread. Where one fails, the other one ends with
  /// it, and an Error (a Bug, where the first one was) reports both. Throws Error inside of a window.
  Counts run(const std::function<void()>& forward, const std::function<void()>& backward, OverlapWindow window = {});

  /// `launch(arguments...)` starts a dispatch (on the side of the backward: its backward) and returns an object whose
  /// wait() gives the result. So does the wrapped function, with the meetings where they belong.
  template <class Launch>
  auto wrap_dispatch(Launch launch) {
    return wrap(ExchangeKind::kDispatch, std::nullopt, std::move(launch));
  }
  /// The same of a combine. `is_last_layer`: of the forward's layers with experts; derived from
  /// OverlapWindow::forward_exchanges where it is not given.
  template <class Launch>
  auto wrap_combine(Launch launch, std::optional<bool> is_last_layer = std::nullopt) {
    return wrap(ExchangeKind::kCombine, is_last_layer, std::move(launch));
  }

  /// What both are made of. `is_recomputed`: an exchange of a forward that the backward runs again. An exchange inside
  /// of another one of its side belongs to that one and has no meetings of its own.
  ExchangeHooks begin_exchange(ExchangeKind kind, std::optional<bool> is_last_layer = std::nullopt,
                               bool is_recomputed = false);

  HookCoordinator& coordinator() { return coordinator_; }

 private:
  friend class ExchangeHooks;
  /// Of one side; used by its thread alone.
  struct Side {
    int exchanges = 0;
    bool in_exchange = false;
    std::exception_ptr error;
    std::string text;
  };

  template <class Pending>
  struct Wrapped {
    ExchangeHooks hooks;
    Pending pending;

    auto wait() {
      hooks.before_wait();
      return pending.wait();
    }
  };

  template <class Launch>
  auto wrap(ExchangeKind kind, std::optional<bool> is_last_layer, Launch launch) {
    return [this, kind, is_last_layer, launch = std::move(launch)](auto&&... arguments) mutable {
      ExchangeHooks hooks = begin_exchange(kind, is_last_layer);
      auto pending = launch(std::forward<decltype(arguments)>(arguments)...);
      hooks.launched();
      return Wrapped<decltype(pending)>{std::move(hooks), std::move(pending)};
    };
  }

  void run_side(OverlapSide side, const std::function<void()>& body);
  void note_failure(OverlapSide side);
  [[noreturn]] void report() const;
  Side& at(OverlapSide side) { return sides_[static_cast<std::size_t>(side)]; }

  OverlapOptions options_;
  HookCoordinator coordinator_;
  WorkerThread worker_;
  OverlapWindow window_;
  std::array<Side, 2> sides_;
  std::mutex mutex_;
  std::optional<OverlapSide> first_failed_;
};

}  // namespace ppctl
