#include "schedule/passes/mpipe_placement.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <queue>

#include "base/error.hpp"
#include "schedule/links.hpp"
#include "schedule/passes/insertions.hpp"

namespace ppctl {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();
constexpr double kTolerance = 1e-9;

/// The beats of a schedule as a graph: how long each takes and which beats of other ranks wait for it.
struct Beat {
  int rank = -1;
  double duration = 0.0;
  double tail = 0.0;               ///< the longest way from its start to the end of the step
  std::vector<int> after;          ///< beats that need its tensors
  int num_before = 0;              ///< beats whose tensors it needs
  std::vector<int> features;       ///< microbatches whose features it takes
  std::vector<int> feature_grads;  ///< microbatches whose feature gradients it makes
};

class BeatGraph {
 public:
  BeatGraph(const Schedule& schedule, const MpipeOptions& options)
      : options_(options), links_(schedule), forward_(links_.num_keys(), -1), backward_(links_.num_keys(), -1) {
    for (int rank = 0; rank < schedule.pp(); ++rank) add_rank(schedule.ranks[static_cast<std::size_t>(rank)], rank);
    connect(schedule);
    find_tails();
  }

  const Beat& operator[](int beat) const { return beats_[static_cast<std::size_t>(beat)]; }
  std::size_t size() const { return beats_.size(); }
  int first_of(int rank) const { return first_[static_cast<std::size_t>(rank)]; }
  int end_of(int rank) const { return first_[static_cast<std::size_t>(rank) + 1]; }
  /// Of the beat that takes a microbatch's features.
  double tail_of_consumer(int microbatch) const {
    return (*this)[forward_[links_.key(options_.consumer, microbatch)]].tail;
  }
  int consumer_rank(int microbatch) const { return links_.owner(options_.consumer, microbatch); }
  double hop(int from, int to) const { return from == to ? 0.0 : options_.p2p; }

 private:
  ChunkCosts costs_of(MetaStep part) const {
    return options_.stages.empty() ? ChunkCosts() : options_.stages[static_cast<std::size_t>(part.stage_value())];
  }

  void add_rank(const RankSteps& rank, int number) {
    if (first_.empty()) first_.push_back(0);
    for (const MetaStep step : beats_of(rank)) {
      Beat beat;
      beat.rank = number;
      const int id = static_cast<int>(beats_.size());
      for_each_part(rank, step, [&](MetaStep part) {
        const ChunkCosts costs = costs_of(part);
        const std::size_t key = links_.key(part.stage_value(), part.microbatch_value());
        const bool consumes = part.stage_value() == options_.consumer;
        if (part.type() == MetaStepType::FORWARD) {
          beat.duration += costs.forward;
          forward_[key] = id;
          if (consumes) beat.features.push_back(part.microbatch_value());
          return;
        }
        if (part.type() != MetaStepType::BACKWARD_WEIGHT) {
          beat.duration += costs.dx;
          backward_[key] = id;
          if (consumes) beat.feature_grads.push_back(part.microbatch_value());
        }
        if (part.type() != MetaStepType::BACKWARD_INPUT) beat.duration += costs.dw;
      });
      beats_.push_back(std::move(beat));
    }
    first_.push_back(static_cast<int>(beats_.size()));
  }

  void connect(const Schedule& schedule) {
    const auto edge = [&](int from, int to) {
      if (from < 0 || to < 0 || from == to) return;
      beats_[static_cast<std::size_t>(from)].after.push_back(to);
      ++beats_[static_cast<std::size_t>(to)].num_before;
    };
    for (int stage = 0; stage + 1 < schedule.num_stages(); ++stage) {
      for (int microbatch = 0; microbatch < schedule.num_microbatches; ++microbatch) {
        const std::size_t here = links_.key(stage, microbatch);
        const std::size_t next = links_.key(stage + 1, microbatch);
        edge(forward_[here], forward_[next]);
        edge(backward_[next], backward_[here]);
      }
    }
  }

  /// Against the direction of time: a beat's tail is known once those of its successors are.
  void find_tails() {
    std::vector<int> waiting(beats_.size(), 0);
    std::vector<std::vector<int>> before(beats_.size());
    for (std::size_t id = 0; id < beats_.size(); ++id) {
      waiting[id] = static_cast<int>(beats_[id].after.size()) + (is_last(static_cast<int>(id)) ? 0 : 1);
      for (const int after : beats_[id].after) before[static_cast<std::size_t>(after)].push_back(static_cast<int>(id));
    }
    std::vector<int> ready;
    for (std::size_t id = 0; id < beats_.size(); ++id) {
      if (waiting[id] == 0) ready.push_back(static_cast<int>(id));
    }
    std::size_t done = 0;
    for (; !ready.empty(); ++done) {
      const int id = ready.back();
      ready.pop_back();
      Beat& beat = beats_[static_cast<std::size_t>(id)];
      double behind = is_last(id) ? 0.0 : beats_[static_cast<std::size_t>(id) + 1].tail;
      for (const int after : beat.after)
        behind = std::max(behind, hop(beat.rank, (*this)[after].rank) + (*this)[after].tail);
      for (const int j : beat.feature_grads) {
        const int owner = mpipe_owner(j, links_.pp(), links_.num_microbatches());
        if (options_.trains) behind = std::max(behind, hop(beat.rank, owner) + options_.backward);
      }
      beat.tail = beat.duration + behind;
      const auto release = [&](int previous) {
        if (--waiting[static_cast<std::size_t>(previous)] == 0) ready.push_back(previous);
      };
      for (const int previous : before[static_cast<std::size_t>(id)]) release(previous);
      if (id != first_of(beat.rank)) release(id - 1);
    }
    PPCTL_CHECK_EQ(done, beats_.size());
  }

  bool is_last(int id) const { return id + 1 == end_of(beats_[static_cast<std::size_t>(id)].rank); }

  const MpipeOptions& options_;
  StageLinks links_;
  std::vector<Beat> beats_;
  std::vector<int> first_;
  std::vector<int> forward_;  ///< beat by (stage, microbatch)
  std::vector<int> backward_;
};

/// How eagerly a list schedule takes encoder work.
struct Eagerness {
  double lead = 0.0;    ///< encoder forwards count as so much closer to being needed, in forwards
  double target = 0.0;  ///< a length of the step: what it leaves a beat of slack may be taken away from it
};

/// One list schedule.
class ListSchedule {
 public:
  ListSchedule(const BeatGraph& graph, const MpipeOptions& options, int pp, int num_microbatches, Eagerness eagerness)
      : graph_(graph),
        options_(options),
        eagerness_(eagerness),
        ranks_(static_cast<std::size_t>(pp)),
        ready_(graph.size(), 0.0),
        missing_(graph.size()),
        feature_(static_cast<std::size_t>(num_microbatches), kUnknown) {
    for (std::size_t beat = 0; beat < graph.size(); ++beat) {
      missing_[beat] = graph[static_cast<int>(beat)].num_before;
    }
    for (int j = 0; j < num_microbatches; ++j) ranks_[owner(j)].forwards.push_back(j);
    for (int rank = 0; rank < pp; ++rank) {
      state(rank).next_beat = graph.first_of(rank);
      wake(rank, 0.0);
    }
  }

  void run() {
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (state(event.rank).free_at <= event.time) step(event.rank, event.time);
    }
  }

  double length() const { return length_; }
  const MpipePlacement& placement() const { return placement_; }

 private:
  struct Event {
    double time;
    int rank;
    bool operator<(const Event& other) const {  // the earliest on top, then the lowest rank
      return time != other.time ? time > other.time : rank > other.rank;
    }
  };
  struct RankState {
    double free_at = 0.0;
    int next_beat = 0;
    std::vector<int> forwards;  ///< its own microbatches
    std::size_t next_forward = 0;
    std::vector<std::pair<double, int>> backwards;  ///< when the gradients of a microbatch's features come
  };

  RankState& state(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  std::size_t owner(int microbatch) const {
    return static_cast<std::size_t>(
        mpipe_owner(microbatch, static_cast<int>(ranks_.size()), static_cast<int>(feature_.size())));
  }
  void wake(int rank, double time) { events_.push({time, rank}); }

  /// When all that a rank's next beat needs is there; unknown as long as somebody has not begun to make it.
  double ready_time(int rank) {
    const int beat = state(rank).next_beat;
    if (beat == graph_.end_of(rank) || missing_[static_cast<std::size_t>(beat)] > 0) return kUnknown;
    double ready = ready_[static_cast<std::size_t>(beat)];
    for (const int j : graph_[beat].features) ready = std::max(ready, feature_[static_cast<std::size_t>(j)]);
    return ready;
  }

  void step(int rank, double now) {
    RankState& me = state(rank);
    const bool has_beat = me.next_beat != graph_.end_of(rank);
    const double ready = ready_time(rank);
    const bool has_forward = me.next_forward < me.forwards.size();
    const double encoder_tail = has_forward ? forward_tail(rank) : 0.0;
    const bool urgent =
        has_forward && (!has_beat || encoder_tail + eagerness_.lead * options_.forward > graph_[me.next_beat].tail);
    if (ready <= now && !urgent) return run_beat(rank, now);
    const double gap = ready - now;
    const double slack = has_beat ? eagerness_.target - graph_[me.next_beat].tail - now : kUnknown;
    const auto fits = [&](double duration) { return duration <= std::max(gap, slack) + kTolerance; };
    if (has_forward && (urgent || fits(options_.load + options_.forward))) return run_forward(rank, now);
    const auto backward = std::ranges::min_element(me.backwards);
    if (backward != me.backwards.end() && backward->first <= now && (!has_beat || fits(options_.backward))) {
      return run_backward(rank, now, backward);
    }
    if (ready <= now) return run_beat(rank, now);
    if (ready != kUnknown) wake(rank, ready);
    if (backward != me.backwards.end() && backward->first > now) wake(rank, backward->first);
  }

  double forward_tail(int rank) {
    const int j = state(rank).forwards[state(rank).next_forward];
    return options_.load + options_.forward + graph_.hop(rank, graph_.consumer_rank(j)) + graph_.tail_of_consumer(j);
  }

  void occupy(int rank, double until) {
    state(rank).free_at = until;
    length_ = std::max(length_, until);
    wake(rank, until);
  }

  void run_beat(int rank, double now) {
    RankState& me = state(rank);
    const Beat& beat = graph_[me.next_beat++];
    const double end = now + beat.duration;
    for (const int after : beat.after) {
      const int other = graph_[after].rank;
      double& ready = ready_[static_cast<std::size_t>(after)];
      ready = std::max(ready, end + graph_.hop(rank, other));
      if (--missing_[static_cast<std::size_t>(after)] == 0) wake(other, std::max(now, state(other).free_at));
    }
    for (const int j : beat.feature_grads) {
      if (!options_.trains) continue;
      const int other = static_cast<int>(owner(j));
      const double arrival = end + graph_.hop(rank, other);
      state(other).backwards.emplace_back(arrival, j);
      wake(other, arrival);
    }
    occupy(rank, end);
  }

  void place(int rank, int microbatch, bool backward) {
    if (placement_.empty()) placement_.resize(ranks_.size());
    const auto beat = static_cast<std::size_t>(state(rank).next_beat - graph_.first_of(rank));
    placement_[static_cast<std::size_t>(rank)].push_back({beat, microbatch, backward});
  }

  void run_forward(int rank, double now) {
    RankState& me = state(rank);
    const int j = me.forwards[me.next_forward++];
    place(rank, j, false);
    const double end = now + options_.load + options_.forward;
    const int consumer = graph_.consumer_rank(j);
    feature_[static_cast<std::size_t>(j)] = end + graph_.hop(rank, consumer);
    wake(consumer, std::max(now, state(consumer).free_at));
    occupy(rank, end);
  }

  void run_backward(int rank, double now, std::vector<std::pair<double, int>>::iterator which) {
    place(rank, which->second, true);
    state(rank).backwards.erase(which);
    occupy(rank, now + options_.backward);
  }

  const BeatGraph& graph_;
  const MpipeOptions& options_;
  Eagerness eagerness_;
  std::vector<RankState> ranks_;
  std::vector<double> ready_;    ///< by beat, by what is known so far
  std::vector<int> missing_;     ///< by beat: tensors that nobody has begun to make
  std::vector<double> feature_;  ///< by microbatch: when its features reach their consumer
  std::priority_queue<Event> events_;
  MpipePlacement placement_;
  double length_ = 0.0;
};

}  // namespace

namespace {

/// No order makes the step shorter: the busiest rank's work, or the body behind its first features and before the last
/// backward of the encoder.
double least_length(const BeatGraph& graph, const Schedule& schedule, const MpipeOptions& options) {
  const double backward = options.trains ? options.backward : 0.0;
  double longest = 0.0;
  std::vector<double> work(schedule.ranks.size(), 0.0);
  for (std::size_t id = 0; id < graph.size(); ++id) {
    const Beat& beat = graph[static_cast<int>(id)];
    longest = std::max(longest, beat.tail);
    work[static_cast<std::size_t>(beat.rank)] += beat.duration;
  }
  const double encoder = options.load + options.forward + backward;
  for (int j = 0; j < schedule.num_microbatches; ++j) {
    work[static_cast<std::size_t>(mpipe_owner(j, schedule.pp(), schedule.num_microbatches))] += encoder;
  }
  return std::max(options.load + options.forward + longest, std::ranges::max(work));
}

}  // namespace

MpipePlacement place_before_body(const Schedule& schedule, const MpipeOptions& options) {
  MpipePlacement placement(schedule.ranks.size());
  for (int j = 0; j < schedule.num_microbatches; ++j) {
    const auto owner = static_cast<std::size_t>(mpipe_owner(j, schedule.pp(), schedule.num_microbatches));
    placement[owner].push_back({0, j, false});
  }
  if (!options.trains) return placement;
  for (std::size_t rank = 0; rank < placement.size(); ++rank) {
    const std::size_t end = beats_of(schedule.ranks[rank]).size();
    const std::size_t count = placement[rank].size();
    for (std::size_t i = 0; i < count; ++i) placement[rank].push_back({end, placement[rank][i].microbatch, true});
  }
  return placement;
}

MpipePlacement place_just_in_time(const Schedule& schedule, const MpipeOptions& options) {
  const BeatGraph graph(schedule, options);
  const double bound = least_length(graph, schedule, options);
  constexpr std::array kLeads{0.0, 1.0, 2.0, 4.0, 8.0};
  constexpr std::array kTargets{0.0, 1.0, 1.01, 1.02, 1.04, 1.06, 1.1, 1.15, 1.25};
  MpipePlacement best;
  double length = kUnknown;
  for (const double lead : kLeads) {
    for (const double target : kTargets) {
      ListSchedule list(graph, options, schedule.pp(), schedule.num_microbatches, {lead, target * bound});
      list.run();
      if (list.length() >= length) continue;
      length = list.length();
      best = list.placement();
    }
  }
  return best;
}

}  // namespace ppctl
