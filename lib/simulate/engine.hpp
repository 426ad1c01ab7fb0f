#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "schedule/pair_transfers.hpp"
#include "simulate/overlapped_pair.hpp"
#include "simulate/routes.hpp"
#include "simulate/simulate.hpp"

namespace ppctl {

/// The discrete-event run behind simulate().
///
/// Ranks are sequential and a message has one sender and one receiver, so times do not depend on the order in which
/// ranks are advanced: each runs until it needs a message that has not been sent, and the sender wakes it. A message is
/// one number, its time of arrival, in an array that (stage, microbatch) indexes; nothing is hashed and nothing is
/// allocated on the way.
class SimulationEngine {
 public:
  SimulationEngine(const Schedule& schedule, const CostModel& costs, const SimulateOptions& options);

  Simulation run();

 private:
  static constexpr double kUnset = -1;

  struct RankState {
    double now = 0;  ///< its compute thread
    double busy = 0;
    double first = 0;          ///< start of the first compute step
    double wait_previous = 0;  ///< for rank − 1 and rank + 1 (modulo p)
    double wait_next = 0;
    double wait_collective = 0;
    double wait_offload = 0;
    double link_free[2] = {0, 0};  ///< outgoing links to rank + 1 and to any other
    double collective_free = 0;
    double offload_free = 0;
    double load_free = 0;
    double bytes = 0;
    double peak_bytes = 0;
    std::size_t next_step = 0;
    const double* waiting_for = nullptr;  ///< the cell whose arrival wakes it
    int chunks = 0;
    int peak_chunks = 0;
    bool started = false;
  };
  /// A message between ranks that are no neighbours in the pipeline's order of stages: MPipe's data, features and their
  /// gradients.
  struct Mailbox {
    std::vector<double> arrival;  ///< by microbatch
    std::vector<int> receiver;    ///< the rank that posted the receive, or -1
    std::vector<int> sender;
  };
  enum MailKind { kData, kFeatures, kFeatureGrads, kNumMailKinds };

  std::size_t cell(int stage, int microbatch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(num_microbatches_) +
           static_cast<std::size_t>(microbatch);
  }
  RankState& state(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  // Each of these returns false where the rank must wait; the step is then tried again when it is woken.
  void advance(int rank);
  bool run_step(int rank, MetaStep step);
  bool run_compute(int rank, MetaStep step);
  bool run_other(int rank, MetaStep step);

  /// Whether what `step` needs has been sent; raises *start to when it may start, and counts the wait once the rank has
  /// started.
  bool inputs_ready(int rank, MetaStep step, const StageRoute& route, double* start);
  /// The same of the parameters, whose gather has been started.
  void wait_for_parameters(int rank, int stage, double* start);
  bool mail_ready(int rank, MailKind kind, int microbatch, double* start);
  void wait_until(int rank, double time, int peer, MetaStep step, double* start);
  void begin_work(int rank, double start);
  void finish_compute(int rank, MetaStep step, const StageRoute& route, double end);

  /// `time`: when the rank posts it.
  void post_p2p(int rank, MetaStep step, double time);
  /// Starts a message and wakes its receiver.
  void send(double* cell, int from, int to, TransferCosts costs, double time, MetaStep step);
  void start_transfer(double* cell, int from, int to, TransferCosts costs, double time, MetaStep step);
  /// Rendezvous: the second of send and receive starts the transfer.
  void join_transfer(double* cell, int from, int to, TransferCosts costs, double time, MetaStep step);
  void arrive(double* cell, int to, double time);

  // engine_pairs.cpp: overlapped pairs.
  bool run_overlapped(int rank, MetaStep pair);
  /// When both halves of a pair can start, without counting a wait; false where one cannot yet.
  bool halves_ready(int rank, std::span<const MetaStep> halves, PairHalves* ready);
  PairTimes time_pair(std::span<const MetaStep> halves, double now, PairHalves ready) const;
  /// Counts what a pair's rank waits for messages, and returns the part that lies between its halves.
  double count_pair_waits(int rank, std::span<const MetaStep> halves, double now, PairHalves ready,
                          const PairTimes& times);
  int input_peer(MetaStep half, const StageRoute& route) const;
  /// When the transfers behind a pair start.
  void note_pair_transfers(int rank, const PairTimes& times);
  /// When the rank starts the transfer that it has come to.
  double transfer_time(int rank);

  // engine_lanes.cpp: what runs beside the compute thread.
  void run_collective(int rank, MetaStep step);
  void run_offload(int rank, MetaStep step);
  bool run_preprocess(int rank, MetaStep step);
  /// What a step of loading or encoding is, and its milliseconds.
  std::pair<EventKind, double> preprocess_work(MetaStepType type) const;
  void post_mail(int rank, MetaStep step);
  /// Index of a stage's parameters: a bidirectional placement keeps each twice.
  std::size_t parameter_slot(int rank, int stage) const;
  double swapped_bytes(int stage) const;
  double offload_ms(int stage) const;

  void add_chunk(int rank, double bytes);
  void remove_chunk(int rank, double bytes);
  void record(int rank, double start, double end, EventKind kind, MetaStep step, int lane, int peer = -1);

  void check_step(int rank, MetaStep step) const;
  [[noreturn]] void report_deadlock() const;
  std::string describe_wait(int rank) const;
  Simulation result();
  RankResult rank_result(int rank, double wall_ms) const;

  const Schedule& schedule_;
  const CostModel& costs_;
  SimulateOptions options_;
  int num_stages_;
  int num_microbatches_;
  RouteTable routes_;
  bool communicates_;  ///< the schedule has sends and receives of its own
  std::vector<RankState> ranks_;
  std::vector<double> activations_;  ///< by cell: when the input of a forward arrives
  std::vector<double> gradients_;    ///< by cell: when the gradient of an output arrives
  std::vector<double> first_side_;   ///< rendezvous, by cell of both: when the first of send and receive came
  std::vector<double> unsharded_;    ///< by parameter_slot
  std::vector<double> moved_;        ///< by cell: when the offload or load in flight ends
  std::vector<Mailbox> mail_;
  int mail_stage_ = -1;                           ///< the stage that takes the features
  std::vector<std::vector<PeerWait>> far_waits_;  ///< by rank: waits for ranks that are no neighbours
  /// By rank: transfers behind its last pair that start before the end of that, by index of their steps.
  std::vector<std::vector<std::pair<std::size_t, double>>> early_;
  std::vector<PairTransfer> pair_transfers_;  ///< scratch
  std::vector<int> runnable_;
  std::int64_t messages_ = 0;
  std::int64_t calls_ = 0;
  std::int64_t batches_ = 0;
  Timeline timeline_;
};

}  // namespace ppctl
