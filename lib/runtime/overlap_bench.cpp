#include "runtime/overlap_bench.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "comm/emulated_link.hpp"
#include "comm/inproc.hpp"
#include "runtime/bench_report.hpp"
#include "runtime/executor.hpp"
#include "runtime/overlapped_exchange.hpp"
#include "runtime/overlapped_pairs.hpp"
#include "runtime/tensor_bytes.hpp"

namespace ppctl {
namespace {

constexpr double kMillisecond = 1e6;
constexpr std::int64_t kRowsToEach = 64;  ///< rows that each rank sends to each other rank in one exchange
constexpr std::int64_t kRowWidth = 32;
constexpr std::int64_t kOutputElements = 4096;

/// Bandwidth at which `bytes` take `ms`; no limit for no time.
double gbps_for(std::int64_t bytes, double ms) { return ms > 0 ? static_cast<double>(bytes) * 8 / (ms * 1e6) : 0; }

LinkModel link_between(const OverlapCase& bench, int from, int to) {
  const bool same_pipeline_rank = from / bench.ep == to / bench.ep;
  const std::int64_t bytes = 4 * (same_pipeline_rank ? kRowsToEach * kRowWidth : kOutputElements);
  const double ms = same_pipeline_rank ? bench.exchange_ms : bench.message_ms;
  return {.latency_us = 0, .bandwidth_gbps = gbps_for(bytes, ms), .rendezvous = true};
}

std::vector<int> ranks_of_pipeline(const OverlapCase& bench, int ep_rank) {
  std::vector<int> ranks;
  for (int p = 0; p < bench.schedule.pp(); ++p) ranks.push_back(p * bench.ep + ep_rank);
  return ranks;
}

/// All-to-alls of as many rows for every rank, over a group for forwards and one for backwards. Checks what it gets.
class EvenExchange final : public ExpertExchange {
 public:
  EvenExchange(Communicator& communicator, const std::vector<int>& ranks, double timeout_s)
      : forward_(communicator.group(ranks, "exchanges of forwards")),
        backward_(communicator.group(ranks, "exchanges of backwards")),
        timeout_s_(timeout_s) {}

  /// What every transfer carries: row i of the rows for a rank says from whom they are.
  at::Tensor rows() const {
    return at::full({kRowsToEach * forward_->size(), kRowWidth}, static_cast<float>(forward_->rank()), at::kFloat);
  }

  std::unique_ptr<PendingExchange> start(ExpertTransfer transfer) override;

 private:
  class Pending;

  std::unique_ptr<Group> forward_;
  std::unique_ptr<Group> backward_;
  double timeout_s_;
};

class EvenExchange::Pending final : public PendingExchange {
 public:
  Pending(Group& group, at::Tensor sent, double timeout_s)
      : timeout_s_(timeout_s), sent_(std::move(sent)), received_(at::empty_like(sent_)) {
    const std::vector<std::size_t> sizes(static_cast<std::size_t>(group.size()),
                                         sent_.nbytes() / static_cast<std::size_t>(group.size()));
    auto* received = static_cast<std::byte*>(received_.mutable_data_ptr());
    request_ = group.all_to_all(const_bytes(sent_), sizes, {received, received_.nbytes()}, sizes);
  }

  ExpertRows wait() override {
    request_->wait(Deadline::after_seconds(timeout_s_), "an exchange of experts");
    const auto* values = received_.const_data_ptr<float>();
    for (std::int64_t row = 0; row < received_.size(0); ++row) {
      PPCTL_CHECK_EQ(values[row * kRowWidth], static_cast<float>(row / kRowsToEach));
    }
    return {received_, {}};
  }

 private:
  double timeout_s_;
  at::Tensor sent_;
  at::Tensor received_;
  RequestPtr request_;
};

std::unique_ptr<PendingExchange> EvenExchange::start(ExpertTransfer transfer) {
  using Operation = ExpertTransfer::Operation;
  const bool backward =
      transfer.operation == Operation::kCombineBackward || transfer.operation == Operation::kDispatchBackward;
  return std::make_unique<Pending>(backward ? *backward_ : *forward_, std::move(transfer.rows), timeout_s_);
}

/// One rank of the benchmark.
class OverlapRank {
 public:
  OverlapRank(Communicator& communicator, const OverlapCase& bench)
      : bench_(bench),
        transport_(communicator.transport()),
        pairs_(transport_, bench.timeout_s),
        exchange_(communicator, ranks_of_experts(), bench.timeout_s),
        overlapped_(exchange_, pairs_.overlap()) {
    ExecutorOptions options;
    options.timeout_s = bench.timeout_s;
    options.record_spans = true;
    const std::vector<int> ranks = ranks_of_pipeline(bench, transport_.rank() % bench.ep);
    executor_.emplace(bench.schedule, PipelineRanks{&transport_, pipeline_rank(), ranks}, make_stages(), options);
    if (bench.two_threads) executor_->register_custom_function(MetaStepType::OVERLAP_B_F, pairs_.function());
  }

  RankReport run(int step, Nanoseconds origin) {
    std::vector<Microbatch> microbatches(static_cast<std::size_t>(bench_.schedule.num_microbatches));
    for (Microbatch& microbatch : microbatches) microbatch.step = step;
    PreciseSleeper().sleep_until(origin);
    const StepResult& got = executor_->run(std::move(microbatches));
    return {got.end, got.peak_chunks, got.spans, unit_.take_spans()};
  }

 private:
  PipelineRank pipeline_rank() const { return PipelineRank(transport_.rank() / bench_.ep); }

  std::vector<int> ranks_of_experts() const {
    std::vector<int> ranks;
    for (int e = 0; e < bench_.ep; ++e) ranks.push_back(pipeline_rank().value * bench_.ep + e);
    return ranks;
  }

  std::vector<std::shared_ptr<PipelineStage>> make_stages() {
    std::vector<std::shared_ptr<PipelineStage>> stages;
    const int num_stages = bench_.schedule.num_stages();
    for (const StageId stage : bench_.schedule.placement.stages_of(pipeline_rank())) {
      auto module = std::make_shared<TimedMoeModule>(bench_.layers, unit_, overlapped_, exchange_.rows(),
                                                     kOutputElements, stage.value == num_stages - 1);
      stages.push_back(std::make_shared<PipelineStage>(std::move(module), stage.value, num_stages));
    }
    return stages;
  }

  const OverlapCase& bench_;
  Transport& transport_;
  OverlappedPairs pairs_;
  EvenExchange exchange_;
  OverlappedExchange overlapped_;
  TimedUnit unit_;
  std::optional<Executor> executor_;
};

OverlapMeasurement combine(const OverlapCase& bench, Nanoseconds origin, const std::vector<std::string>& reports) {
  const auto ms = [&](Nanoseconds at) { return static_cast<double>(at - origin) / kMillisecond; };
  const double exchanges_ms = 2.0 * static_cast<double>(bench.layers.size()) * bench.exchange_ms;
  OverlapMeasurement result;
  result.pipelines.resize(static_cast<std::size_t>(bench.ep));
  std::vector<std::vector<std::vector<Interval>>> computed_by_rank(result.pipelines.size());
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    RankReport report = RankReport::unpack(reports[rank]);
    result.wall_ms = std::max(result.wall_ms, ms(report.end));
    StepResult step;
    step.spans = std::move(report.spans);
    std::vector<Interval> computed;
    for (const TimedUnit::Span& span : report.computed) computed.push_back({ms(span.start), ms(span.end)});
    const std::size_t pipeline = rank % result.pipelines.size();
    auto& ranks = result.pipelines[pipeline].ranks;
    ranks.push_back(step.events(origin));
    result.exchange.add(exchange_exposure(ranks.back(), exchanges_ms, computed));
    computed_by_rank[pipeline].push_back(std::move(computed));
  }
  for (std::size_t i = 0; i < result.pipelines.size(); ++i) {
    result.p2p.add(p2p_exposure(bench.schedule.placement, bench.schedule.num_microbatches, result.pipelines[i],
                                bench.message_ms, computed_by_rank[i]));
  }
  return result;
}

}  // namespace

OverlapMeasurement measure_overlap(Communicator& communicator, const OverlapCase& bench) {
  const int num_ranks = bench.schedule.pp() * bench.ep;
  const int rank = communicator.transport().rank();
  if (communicator.transport().size() < num_ranks) {
    throw_error("pp {} x ep {} needs {} ranks, but there are {}", bench.schedule.pp(), bench.ep, num_ranks,
                communicator.transport().size());
  }
  OverlapMeasurement best;
  if (rank >= num_ranks) return best;
  const auto linked = emulate_links(communicator, [&](int from, int to) { return link_between(bench, from, to); });
  std::vector<int> all;
  for (int r = 0; r < num_ranks; ++r) all.push_back(r);
  // What belongs to the benchmark itself does not go over the links.
  const std::unique_ptr<Group> group = communicator.group(all, "overlap");
  OverlapRank me(*linked, bench);
  for (int step = 0; step < bench.warmup_steps + bench.measured_steps; ++step) {
    const Nanoseconds origin = agree_on_start(*group, Deadline::after_seconds(bench.timeout_s));
    const RankReport report = me.run(step, origin);
    const auto reports = group->all_gather_strings(report.pack(), Deadline::after_seconds(bench.timeout_s));
    if (rank != 0 || step < bench.warmup_steps) continue;
    OverlapMeasurement measured = combine(bench, origin, reports);
    if (step == bench.warmup_steps || measured.wall_ms < best.wall_ms) best = std::move(measured);
  }
  return best;
}

OverlapMeasurement measure_overlap_inproc(const OverlapCase& bench) {
  OverlapMeasurement result;
  run_inproc(bench.schedule.pp() * bench.ep, [&](Communicator& communicator) {
    OverlapMeasurement mine = measure_overlap(communicator, bench);
    if (communicator.transport().rank() == 0) result = std::move(mine);
  });
  return result;
}

}  // namespace ppctl
