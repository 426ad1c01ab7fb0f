#include "schedule/generators/greedy.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <queue>

#include "base/error.hpp"
#include "schedule/generators/rank_order.hpp"

namespace ppctl {
namespace {

/// Whole ticks, so that what is equal on paper is equal here: half of the choices are ties.
using Ticks = std::int64_t;
constexpr Ticks kNever = std::numeric_limits<Ticks>::max();

struct StageTicks {
  Ticks forward, input, weight, p2p;
};

std::vector<StageTicks> to_ticks(const std::vector<ChunkCosts>& costs) {
  double longest = 0;
  for (const ChunkCosts& c : costs) longest = std::max({longest, c.forward, c.dx, c.dw, c.p2p});
  const double scale = longest > 0 ? 1e8 / longest : 1;
  const auto ticks = [scale](double cost) { return static_cast<Ticks>(std::llround(cost * scale)); };
  std::vector<StageTicks> result;
  for (const ChunkCosts& c : costs) result.push_back({ticks(c.forward), ticks(c.dx), ticks(c.dw), ticks(c.p2p)});
  return result;
}

/// The next F or I of a rank: which chunk, and when it can start at the earliest (kNever: not known yet, or none).
struct Candidate {
  int chunk = -1;
  Ticks at = kNever;
  bool waits_for_room = false;  // F: there is one that memory does not allow
};

struct Weight {
  int chunk;
  int microbatch;
};

struct RankState {
  RankState(const Placement& placement, PipelineRank rank, std::size_t num_steps) : order(placement, rank, num_steps) {}

  RankOrder order;
  Ticks free = 0;
  Ticks idle = 0;  // between its first I and now
  bool asleep = false;
  bool saw_input = false;
  MetaStepType last = MetaStepType::BACKWARD_INPUT;
  int forwards_left = 0;
  double held = 0;  // activations, in chunks
  std::deque<Weight> weights;
};

class GreedyRun {
 public:
  GreedyRun(const ScheduleSpec& spec, const Placement& placement, const std::vector<ChunkCosts>& costs,
            const GreedyLimits& limits, const GreedySettings& settings)
      : placement_(placement),
        costs_(to_ticks(costs)),
        limits_(limits),
        settings_(settings),
        p_(placement.pp()),
        v_(placement.chunks()),
        m_(spec.num_microbatches),
        next_forward_(static_cast<std::size_t>(p_ * v_), 0),
        next_input_(static_cast<std::size_t>(p_ * v_), 0),
        forward_at_(static_cast<std::size_t>(p_ * v_) * static_cast<std::size_t>(m_), kNever),
        input_at_(forward_at_.size(), kNever) {
    for (int j = 0; j < m_; ++j) forward_at_[place(0, j)] = 0;
    ranks_.reserve(static_cast<std::size_t>(p_));
    for (int r = 0; r < p_; ++r) {
      ranks_.emplace_back(placement, PipelineRank(r), 3 * static_cast<std::size_t>(m_) * static_cast<std::size_t>(v_));
      ranks_.back().forwards_left = m_ * v_;
      awake_.emplace(0, r);
    }
  }

  /// False if it deadlocked.
  bool run() {
    std::size_t left = 3 * forward_at_.size();
    while (left > 0) {
      if (awake_.empty()) return false;
      const auto [at, r] = awake_.top();
      awake_.pop();
      RankState& rank = ranks_[static_cast<std::size_t>(r)];
      if (rank.asleep || rank.free != at) continue;  // an entry from before the rank slept or ran
      if (step(r, rank)) --left;
    }
    return true;
  }

  std::vector<RankSteps> take_orders() {
    std::vector<RankSteps> orders;
    for (RankState& rank : ranks_) orders.push_back(rank.order.take());
    return orders;
  }

 private:
  enum class Choice { kForward, kInput, kWeight, kWait, kWaitInput };

  std::size_t place(int stage, int microbatch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(m_) + static_cast<std::size_t>(microbatch);
  }
  int stage(int r, int chunk) const { return placement_.stage_of(PipelineRank(r), chunk).value; }

  /// The earliest F that memory allows; of several that are there, that of the chunk that is furthest through the
  /// model.
  Candidate forward_candidate(int r, const RankState& rank, Ticks now) const {
    Candidate best;
    for (int chunk = 0; chunk < v_; ++chunk) {
      const auto s = static_cast<std::size_t>(stage(r, chunk));
      if (next_forward_[s] == m_) continue;
      const Ticks at = std::max(now, forward_at_[place(static_cast<int>(s), next_forward_[s])]);
      if (at == kNever) continue;
      if (!has_room(rank, chunk)) {
        best.waits_for_room |= at == now;
      } else if (at <= best.at) {
        best.chunk = chunk;
        best.at = at;
      }
    }
    return best;
  }
  /// The earliest I; of several, that of the chunk that is closest to the start of the model.
  Candidate input_candidate(int r, Ticks now) const {
    Candidate best;
    for (int chunk = 0; chunk < v_; ++chunk) {
      const auto s = static_cast<std::size_t>(stage(r, chunk));
      if (next_input_[s] == m_) continue;
      const Ticks at = std::max(now, input_at_[place(static_cast<int>(s), next_input_[s])]);
      if (at < best.at) best = {chunk, at, false};
    }
    return best;
  }

  /// A forward must leave room for its microbatch's later chunks on this rank, or they could wait for one another for
  /// ever.
  bool has_room(const RankState& rank, int chunk) const {
    return rank.held + 1 + (v_ - 1 - chunk) <= limits_.peak_chunks + 1e-9;
  }

  /// Before the first I: F as long as they come and fit, unless the I would come before F ends.
  Choice choose_in_warmup(int r, Candidate f, Candidate i, Ticks now) {
    if (i.at == now) return Choice::kInput;
    if (f.at != now) return Choice::kWait;
    const bool input_comes = i.at != kNever && i.at < now + costs_[static_cast<std::size_t>(stage(r, f.chunk))].forward;
    if (!input_comes) return Choice::kForward;
    if (r != settings_.one_more || did_one_more_) return Choice::kWaitInput;
    did_one_more_ = true;
    return Choice::kForward;
  }

  Choice choose_in_steady_state(const RankState& rank, Candidate f, Candidate i, Ticks now) const {
    const bool after_input = rank.last == MetaStepType::BACKWARD_INPUT;
    if (f.at == now && i.at == now) return settings_.inputs_first || !after_input ? Choice::kInput : Choice::kForward;
    if (f.at == now) return Choice::kForward;
    if (i.at != now) return Choice::kWait;
    const bool make_room = settings_.weight_for_room && f.waits_for_room && after_input && !rank.weights.empty();
    return make_room ? Choice::kWeight : Choice::kInput;
  }

  /// Whether W goes into a wait that ends at `until`.
  bool weight_fits(const RankState& rank, Ticks now, Ticks until, Ticks weight) const {
    if (rank.weights.empty()) return false;
    if (until == kNever || until - now >= weight) return true;
    if (!settings_.fill_small_gaps || (rank.forwards_left == 0 && !settings_.fill_while_draining)) return false;
    return rank.idle + (until - now) >= most_idle_;
  }

  /// One decision of a rank that is free. False if it went to sleep instead of running a step.
  bool step(int r, RankState& rank) {
    const Ticks now = rank.free;
    const Candidate f = forward_candidate(r, rank, now);
    const Candidate i = input_candidate(r, now);
    Choice choice = rank.saw_input ? choose_in_steady_state(rank, f, i, now) : choose_in_warmup(r, f, i, now);
    if (choice == Choice::kWait || choice == Choice::kWaitInput) {
      const Ticks forward_at = choice == Choice::kWait ? f.at : kNever;
      const Ticks until = std::min(forward_at, i.at);
      const Ticks weight =
          rank.weights.empty() ? 0 : costs_[static_cast<std::size_t>(stage(r, rank.weights.front().chunk))].weight;
      if (weight_fits(rank, now, until, weight)) {
        choice = Choice::kWeight;
      } else if (until == kNever) {
        rank.asleep = true;
        return false;
      } else {
        add_idle(rank, until - now);
        const bool input = i.at == until && (forward_at != until || rank.last == MetaStepType::FORWARD);
        choice = input ? Choice::kInput : Choice::kForward;
      }
    }
    switch (choice) {
      case Choice::kForward:
        run_forward(r, rank, f);
        break;
      case Choice::kInput:
        run_input(r, rank, i);
        break;
      default:
        run_weight(r, rank);
        break;
    }
    awake_.emplace(rank.free, r);
    return true;
  }

  void add_idle(RankState& rank, Ticks idle) {
    if (!rank.saw_input) return;
    rank.idle += idle;
    most_idle_ = std::max(most_idle_, rank.idle);
  }

  void run_forward(int r, RankState& rank, Candidate f) {
    const int s = stage(r, f.chunk);
    const StageTicks& cost = costs_[static_cast<std::size_t>(s)];
    const int j = next_forward_[static_cast<std::size_t>(s)]++;
    const Ticks started = rank.free;
    rank.order.forward(f.chunk, j);
    rank.free = f.at + cost.forward;
    rank.last = MetaStepType::FORWARD;
    rank.held += 1;
    --rank.forwards_left;
    if (s == p_ * v_ - 1) {
      input_at_[place(s, j)] = rank.free;
    } else {
      deliver(r, s + 1, forward_at_[place(s + 1, j)], rank.free, cost.p2p, started);
    }
  }

  void run_input(int r, RankState& rank, Candidate i) {
    const int s = stage(r, i.chunk);
    const StageTicks& cost = costs_[static_cast<std::size_t>(s)];
    const int j = next_input_[static_cast<std::size_t>(s)]++;
    const Ticks started = rank.free;
    rank.order.input(i.chunk, j);
    rank.free = i.at + cost.input;
    rank.last = MetaStepType::BACKWARD_INPUT;
    rank.saw_input = true;
    rank.held -= 1 - limits_.kept_for_weight;
    rank.weights.push_back({i.chunk, j});
    if (s > 0) deliver(r, s - 1, input_at_[place(s - 1, j)], rank.free, cost.p2p, started);
  }

  void run_weight(int r, RankState& rank) {
    const Weight weight = rank.weights.front();
    rank.weights.pop_front();
    rank.order.weight(weight.chunk, weight.microbatch);
    rank.free += costs_[static_cast<std::size_t>(stage(r, weight.chunk))].weight;
    rank.held -= limits_.kept_for_weight;
  }

  /// Tells the rank of `to` when its input comes, and wakes it, so that it can fill the time until then.
  void deliver(int r, int to, Ticks& arrival, Ticks done, Ticks p2p, Ticks now) {
    const int to_rank = placement_.rank_of(StageId(to), MicrobatchId(0), m_).value;
    arrival = done + (to_rank == r ? 0 : p2p);
    RankState& other = ranks_[static_cast<std::size_t>(to_rank)];
    if (!other.asleep) return;
    other.asleep = false;
    if (now > other.free) {
      add_idle(other, now - other.free);
      other.free = now;
    }
    awake_.emplace(other.free, to_rank);
  }

  Placement placement_;
  std::vector<StageTicks> costs_;
  GreedyLimits limits_;
  GreedySettings settings_;
  int p_;
  int v_;
  int m_;
  bool did_one_more_ = false;
  Ticks most_idle_ = 0;
  std::vector<RankState> ranks_;
  std::vector<int> next_forward_;  // by stage
  std::vector<int> next_input_;
  std::vector<Ticks> forward_at_;  // when the input of (stage, microbatch) is there
  std::vector<Ticks> input_at_;
  std::priority_queue<std::pair<Ticks, int>, std::vector<std::pair<Ticks, int>>, std::greater<>> awake_;
};

}  // namespace

std::optional<Schedule> greedy_order(const ScheduleSpec& spec, const Placement& placement,
                                     const std::vector<ChunkCosts>& costs, const GreedyLimits& limits,
                                     const GreedySettings& settings) {
  GreedyRun run(spec, placement, costs, limits, settings);
  if (!run.run()) return std::nullopt;
  Schedule schedule = empty_schedule(spec, placement.kind());
  schedule.ranks = run.take_orders();
  return schedule;
}

}  // namespace ppctl
