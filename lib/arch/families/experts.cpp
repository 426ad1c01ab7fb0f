#include "arch/families/common.hpp"

namespace ppctl {

void parse_experts(const ConfigReader& config, ModelSpec& spec) {
  // Recent files of both families write num_local_experts, older ones of Qwen3-MoE num_experts.
  const bool is_older = config.has("num_experts") && !config.has("num_local_experts");
  const std::string key = is_older ? "num_experts" : "num_local_experts";
  spec.num_experts = config.positive(key);
  spec.experts_per_token = config.positive("num_experts_per_tok");
  if (spec.experts_per_token > spec.num_experts) {
    config.fail("num_experts_per_tok",
                fmt::format("must be at most {}; they are {} and {}", key, spec.experts_per_token, spec.num_experts));
  }
  const double coefficient = config.number("router_aux_loss_coef", 0.001);
  if (!(coefficient >= 0.0)) {
    config.fail("router_aux_loss_coef", fmt::format("must be at least 0; it is {}", coefficient));
  }
  if (config.boolean("output_router_logits", false)) spec.aux_loss_coefficient = coefficient;
}

MoeConfig moe_config(const ModelSpec& spec, const std::string& layer, const std::string& prefix,
                     const ExpertNames& names) {
  const auto linear = [&](std::int64_t in_features) {
    LinearOptions options;
    options.in_features = in_features;
    options.init_stddev = spec.initializer_range;
    return options;
  };
  MoeConfig config;
  config.name = layer + ".experts";
  config.num_experts = spec.num_experts;
  config.top_k = spec.experts_per_token;
  config.renormalise = spec.renormalise_experts;
  config.activation = spec.activation;
  config.num_held = spec.num_experts;
  config.router = linear(spec.hidden_size);
  config.router.parts = {{prefix + "gate", spec.num_experts}};
  config.gate_up = linear(spec.hidden_size);
  config.down = linear(spec.expert_intermediate_size);
  for (std::int64_t i = 0; i < spec.num_experts; ++i) {
    const std::string expert = fmt::format("{}experts.{}.", prefix, i);
    config.gate_up.parts.push_back({fmt::format("{}{}", expert, names.gate), spec.expert_intermediate_size});
    config.gate_up.parts.push_back({fmt::format("{}{}", expert, names.up), spec.expert_intermediate_size});
    config.down.parts.push_back({fmt::format("{}{}", expert, names.down), spec.hidden_size});
  }
  return config;
}

}  // namespace ppctl
