// The JSON of plans and comparisons, kept apart since its header is costly to compile.
#include <nlohmann/json.hpp>

#include "simulate/compare.hpp"
#include "simulate/plan_report.hpp"

namespace ppctl {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json optional_json(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::string dumped(const Json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Json idle_json(const RankIdle& idle) {
  Json waits = Json::array();
  for (const PeerWait& wait : idle.waits) waits.push_back({{"rank", wait.peer.value}, {"ms", wait.ms}});
  return {{"warmup_ms", idle.warmup_ms},
          {"drain_ms", idle.drain_ms},
          {"waits", waits},
          {"collective_ms", idle.collective_ms},
          {"offload_ms", idle.offload_ms}};
}

Json theory_json(const std::optional<Theory>& theory) {
  if (!theory) return nullptr;
  return {{"bubble_wall_ms", optional_json(theory->bubble_wall_ms)},
          {"bubble_span_ms", optional_json(theory->bubble_span_ms)},
          {"at_most", theory->at_most},
          {"bubble_formula", theory->bubble_formula},
          {"peak_chunks", optional_json(theory->peak_chunks)},
          {"peak_formula", theory->peak_formula}};
}

Json cadence_json(const std::optional<Cadence>& cadence) {
  if (!cadence) return nullptr;
  return {{"barrier_ms", cadence->barrier_ms},
          {"post_validation_ms", cadence->post_validation_ms},
          {"ideal_ms", cadence->ideal_ms},
          {"bubble_barrier", cadence->bubble_barrier()},
          {"bubble_post_validation", cadence->bubble_post_validation()}};
}

Json memory_json(const std::optional<MemoryReport>& report) {
  if (!report) return nullptr;
  Json ranks = Json::array();
  for (const RankMemory& memory : report->ranks) {
    ranks.push_back({{"parameters", memory.parameters},
                     {"masters", memory.masters},
                     {"moments", memory.moments},
                     {"tables", memory.tables},
                     {"gradients", memory.gradients},
                     {"unsharded", memory.unsharded},
                     {"step_gradients", memory.step_gradients},
                     {"encoder_gradients", memory.encoder_gradients},
                     {"batch", memory.batch},
                     {"activations", memory.activations},
                     {"buffers", memory.buffers},
                     {"swapped", memory.swapped},
                     {"tensors_between_steps", memory.tensors_between_steps()},
                     {"tensors_at_peak", memory.tensors_at_peak()},
                     {"total", memory.total()},
                     {"peak_step", memory.peak_step},
                     {"fits", report->fits(memory)}});
  }
  return {{"terms", report->terms}, {"limit", report->limit_bytes}, {"ranks", ranks}};
}

}  // namespace

std::string plan_json(const PlanReport& report) {
  const Simulation& simulation = report.simulation;
  Json peak_chunks = Json::array();
  Json peak_bytes = Json::array();
  Json busy = Json::array();
  Json spans = Json::array();
  Json idle = Json::array();
  for (const RankResult& rank : simulation.ranks) {
    peak_chunks.push_back(rank.peak_chunks);
    peak_bytes.push_back(rank.peak_bytes);
    busy.push_back(rank.busy_ms);
    spans.push_back(rank.span_ms());
    idle.push_back(idle_json(rank.idle));
  }
  return dumped({{"schedule", report.schedule},
                 {"placement", report.placement},
                 {"pp", report.pp},
                 {"chunks", report.chunks},
                 {"microbatches", report.num_microbatches},
                 {"passes", report.passes},
                 {"wall_ms", simulation.wall_ms},
                 {"span_ms", simulation.span_ms},
                 {"ideal_ms", simulation.ideal_ms},
                 {"bubble_wall", simulation.bubble_wall()},
                 {"bubble_span", simulation.bubble_span()},
                 {"peak_chunks", peak_chunks},
                 {"peak_bytes", peak_bytes},
                 {"steps", simulation.num_steps},
                 {"p2p_messages", simulation.p2p_messages},
                 {"p2p_calls", simulation.p2p_calls},
                 {"p2p_batches", simulation.p2p_batches},
                 {"busy_ms", busy},
                 {"rank_span_ms", spans},
                 {"idle", idle},
                 {"memory", memory_json(report.memory)},
                 {"theory", theory_json(report.theory)},
                 {"cadence", cadence_json(report.cadence)}});
}

std::string comparison_json(const std::vector<ComparisonRow>& rows) {
  Json array = Json::array();
  for (const ComparisonRow& row : rows) {
    Json object = {{"schedule", row.schedule}, {"chunks", row.chunks}, {"refused", optional_json(row.refused)}};
    if (!row.refused) {
      object.update({{"step_ms", row.step_ms},
                     {"span_ms", row.span_ms},
                     {"bubble_wall", row.bubble_wall},
                     {"bubble_span", row.bubble_span},
                     {"peak_chunks", row.peak_chunks},
                     {"peak_microbatches", row.peak_microbatches},
                     {"peak_bytes", row.peak_bytes}});
    }
    array.push_back(object);
  }
  return dumped(array);
}

}  // namespace ppctl
