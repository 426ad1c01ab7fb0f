#include "simulate/model_costs.hpp"

#include "arch/stage_memory.hpp"
#include "simulate/held_state.hpp"

namespace ppctl {

CostModel model_costs(const MemoryModel& model, const ModelWork& work) {
  const int num_stages = static_cast<int>(model.layer_counts.size());
  std::vector<PartWork> stages;
  double forward = 0.0;
  for (int stage = 0; stage < num_stages; ++stage) {
    stages.push_back(work.of(model.range_of(stage)));
    forward += stages.back().forward;
  }
  const double scale = work.in_ms ? 1.0 : static_cast<double>(num_stages) / forward;
  CostModel costs;
  for (int stage = 0; stage < num_stages; ++stage) {
    const PartWork& part = stages[static_cast<std::size_t>(stage)];
    const StageMemory memory = stage_memory(model.spec, model.range_of(stage), model.shape);
    RankMemory state;
    HeldState(model, stage).add_to(state);
    StageCosts stage_costs;
    stage_costs.forward_ms = part.forward * scale;
    stage_costs.dx_ms = part.dx * scale;
    stage_costs.dw_ms = part.dw * scale;
    stage_costs.activation_bytes = static_cast<double>(memory.saved_bytes);
    stage_costs.unswapped_bytes = static_cast<double>(memory.saved_bytes - memory.swapped_bytes);
    stage_costs.output_bytes = static_cast<double>(memory.output_bytes);
    stage_costs.state_bytes = static_cast<double>(state.tensors_between_steps());
    costs.stages.push_back(stage_costs);
  }
  if (model.spec.transposed_layers >= 0) {
    const PartWork encoder = work.of(transposed_range(model.spec));
    const double repeated = model.encoder_recomputes ? encoder.forward : 0.0;
    costs.encoder_forward_ms = encoder.forward * scale;
    costs.encoder_dx_ms = (repeated + encoder.dx) * scale;
    costs.encoder_dw_ms = encoder.dw * scale;
  }
  return costs;
}

CostModel model_costs(const MemoryModel& model) {
  return model_costs(model, operations_of(model.spec, model.activations, model.shape.sequence));
}

void add_exchanges(const MemoryModel& model, CostModel& costs) {
  if (model.experts.count == 1) return;
  constexpr double kBytesPerGbpsMs = 125'000.0;  // 1 Gbit/s moves so many bytes a millisecond
  const ModelSpec& spec = model.spec;
  const auto rows = static_cast<double>(model.shape.tokens() * spec.experts_per_token);
  const double bytes_to_each = rows * static_cast<double>(spec.hidden_size * model.shape.element_bytes) /
                               static_cast<double>(model.experts.count);
  const double bandwidth = costs.link.bandwidth_gbps;
  const double exchange_ms =
      costs.link.latency_ms + (bandwidth > 0 ? bytes_to_each / (bandwidth * kBytesPerGbpsMs) : 0.0);
  for (std::size_t i = 0; i < costs.stages.size(); ++i) {
    const StageRange range = model.range_of(static_cast<int>(i));
    StageCosts& stage = costs.stages[i];
    for (std::int64_t layer = range.first_layer; layer < range.last_layer; ++layer) {
      if (spec.has_experts(layer)) stage.exchanges += 2;
    }
    stage.forward_exchange_ms = stage.backward_exchange_ms = stage.exchanges * exchange_ms;
    stage.forward_ms += stage.forward_exchange_ms;
    stage.dx_ms += stage.backward_exchange_ms;
  }
}

}  // namespace ppctl
