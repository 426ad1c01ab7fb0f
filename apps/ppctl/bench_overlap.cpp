#include "bench_overlap.hpp"

#include <ATen/Parallel.h>

#include <cstdio>
#include <fstream>

#include "base/error.hpp"
#include "base/log.hpp"
#include "bench_options.hpp"
#include "errors.hpp"
#include "job_schedule.hpp"
#include "launcher.hpp"
#include "overlap_report.hpp"
#include "schedule/generator.hpp"
#include "schedule/verify.hpp"
#include "train/agreement.hpp"
#include "train_engine_connect.hpp"

namespace ppctl {
namespace {

struct OverlapBenchOptions {
  ScheduleSpec spec;
  int ep = 2;
  int layers = 2;
  double forward_ms = 20;  ///< compute
  double backward_ms = 40;
  double exchange_ms = 0;  ///< one all-to-all
  double message_ms = 0;
  std::vector<std::string> variants;
  int steps = 3;
  bool json = false;
  std::string trace;

  std::string title() const {
    return fmt::format(
        "{}, pp {} x ep {}, {} stages a rank of {} layers, {} microbatches; forward {:g} ms and backward {:g} ms of "
        "compute, each all-to-all {:g} ms, each message {:g} ms",
        spec.name, spec.pp, ep, spec.chunks, layers, spec.num_microbatches, forward_ms, backward_ms, exchange_ms,
        message_ms);
  }
};

OverlapBenchOptions read_options(const EngineRequest& request) {
  const auto text = [&](const char* name) { return request.options.at(name); };
  const auto whole = [&](const char* name) { return number_option(name, text(name), 1); };
  const auto real = [&](const char* name) { return number_option(name, text(name), 0.0); };
  OverlapBenchOptions options;
  options.spec.name = text("schedule");
  generator_or_throw(options.spec.name);
  options.spec.pp = whole("pp");
  options.spec.chunks = whole("chunks");
  options.spec.num_microbatches = whole("microbatches");
  options.ep = whole("ep");
  options.layers = whole("layers");
  options.forward_ms = real("forward-ms");
  options.backward_ms = real("backward-ms");
  // A forward and a backward have two exchanges a layer each.
  options.exchange_ms = real("exchange-share") * (options.forward_ms + options.backward_ms) / (4.0 * options.layers);
  options.message_ms = real("p2p-share") * options.forward_ms;
  options.variants = split_list(text("variants"));
  options.steps = whole("steps");
  options.json = wants_json(text("format"));
  options.trace = text("trace");
  return options;
}

/// "none", or names joined by "+".
PassOptions passes_of(const std::string& variant) {
  PassOptions passes;
  if (variant == "none") return passes;
  for (std::size_t at = 0; at <= variant.size();) {
    const std::size_t plus = std::min(variant.find('+', at), variant.size());
    const std::string name = variant.substr(at, plus - at);
    const auto switch_on = [&](auto& pass) {
      if (pass) throw_error("--variants {}: '{}' is there twice", variant, name);
      pass = true;
    };
    if (name == "b_f") {
      switch_on(passes.overlap_b_f);
    } else if (name == "p2p") {
      switch_on(passes.overlap_p2p);
    } else if (name == "duplex") {
      switch_on(passes.duplex);
    } else {
      throw_error("--variants {}: '{}' is neither b_f, p2p nor duplex, joined by +, and 'none' stands alone", variant,
                  name);
    }
    at = plus + 1;
  }
  return passes;
}

CostModel costs_of(const OverlapBenchOptions& options, int num_stages) {
  const double exchanges_ms = 2.0 * options.layers * options.exchange_ms;
  StageCosts stage;
  stage.forward_ms = options.forward_ms + exchanges_ms;
  stage.forward_exchange_ms = exchanges_ms;
  stage.dx_ms = options.backward_ms + exchanges_ms;
  stage.dw_ms = 0;
  stage.backward_exchange_ms = exchanges_ms;
  stage.exchanges = 2.0 * options.layers;
  stage.output_bytes = 1e6;
  CostModel costs = uniform_costs(num_stages, stage);
  if (options.message_ms > 0) costs.link.bandwidth_gbps = stage.output_bytes * 8 / (options.message_ms * 1e6);
  costs.rendezvous = true;
  return costs;
}

struct PreparedVariant {
  OverlapCase bench;
  OverlapRow row;
};

/// Everything but the measurement.
PreparedVariant prepare(const OverlapBenchOptions& options, const std::string& variant) {
  const PassOptions passes = passes_of(variant);
  PreparedVariant prepared;
  OverlapCase& bench = prepared.bench;
  bench.schedule = generate_schedule(options.spec);
  lower_schedule(bench.schedule, passes);
  verify_schedule_or_throw(bench.schedule);
  bench.ep = options.ep;
  const double layers = options.layers;
  const TimedLayer layer{options.forward_ms / layers / 2, options.forward_ms / layers / 2,
                         options.backward_ms / layers / 2, options.backward_ms / layers / 2};
  bench.layers.assign(static_cast<std::size_t>(options.layers), layer);
  bench.exchange_ms = options.exchange_ms;
  bench.message_ms = options.message_ms;
  bench.two_threads = passes.overlap_b_f;
  bench.measured_steps = options.steps;

  OverlapRow& row = prepared.row;
  row.variant = variant;
  const int num_stages = bench.schedule.num_stages();
  row.simulation = simulate(bench.schedule, costs_of(options, num_stages), {.timeline = true});
  const std::vector<StageCompute> compute(static_cast<std::size_t>(num_stages),
                                          {options.forward_ms, options.backward_ms});
  for (const auto& rank : row.simulation.timeline.ranks) {
    row.simulated_exchange.add(exchange_exposure(rank, 2 * layers * options.exchange_ms, compute));
  }
  row.simulated_p2p = p2p_exposure(bench.schedule.placement, bench.schedule.num_microbatches, row.simulation.timeline,
                                   options.message_ms);
  return prepared;
}

/// The same on every rank, and so is what is wrong with it.
PreparedVariant agreed_prepare(const OverlapBenchOptions& options, const std::string& variant) {
  try {
    return prepare(options, variant);
  } catch (const Error& error) {
    throw AgreedError(error.what());
  }
}

void print(const OverlapBenchOptions& options, const std::vector<OverlapRow>& rows) {
  const std::string text = options.json ? overlap_json(rows) : overlap_text(options.title(), rows);
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (options.trace.empty()) return;
  std::ofstream out(options.trace);
  out << overlap_trace(rows);
  out.close();
  if (!out) throw_error("cannot write {}", options.trace);
}

/// `measure` runs one case; what it gives counts on rank 0 alone.
void run_all(const OverlapBenchOptions& options, bool prints,
             const std::function<OverlapMeasurement(const OverlapCase&)>& measure) {
  // All of them before the first is measured, so that what is wrong with one is answered at once.
  std::vector<PreparedVariant> variants;
  for (const std::string& variant : options.variants) variants.push_back(agreed_prepare(options, variant));
  std::vector<OverlapRow> rows;
  for (PreparedVariant& prepared : variants) {
    if (prints) {
      const int steps = prepared.bench.warmup_steps + prepared.bench.measured_steps;
      log_info("measures {} ({} of {}): about {:.2g} s", prepared.row.variant, rows.size() + 1, variants.size(),
               steps * prepared.row.simulation.wall_ms * 1e-3);
    }
    prepared.row.measured = measure(prepared.bench);
    rows.push_back(std::move(prepared.row));
  }
  if (prints) print(options, rows);
}

}  // namespace

int bench_overlap(const EngineRequest& request) {
  const OverlapBenchOptions options = read_options(request);
  at::set_num_threads(1);
  if (!detect_launch().launched) {
    run_all(options, true, measure_overlap_inproc);
    return kExitOk;
  }
  int status = kExitFailed;
  with_communicator(JobConfig(), [&](Communicator& communicator) {
    const Transport& transport = communicator.transport();
    status = run_rank(communicator, [&] {
      const int num_ranks = options.spec.pp * options.ep;
      if (num_ranks > transport.size()) {
        throw AgreedError(fmt::format("pp {} x ep {} needs {} ranks, but {} were started", options.spec.pp, options.ep,
                                      num_ranks, transport.size()));
      }
      run_all(options, transport.rank() == 0,
              [&](const OverlapCase& bench) { return measure_overlap(communicator, bench); });
      return kExitOk;
    });
  });
  return status;
}

}  // namespace ppctl
