#include <cmath>

#include "arch/families/common.hpp"

namespace ppctl {
namespace {

RopeSpec::Kind kind_of(const ConfigReader& rope, const std::string& key, const std::string& name) {
  if (name == "default") return RopeSpec::Kind::kDefault;
  if (name == "linear") return RopeSpec::Kind::kLinear;
  if (name == "dynamic") return RopeSpec::Kind::kDynamic;
  if (name == "llama3") return RopeSpec::Kind::kLlama3;
  if (name == "yarn") return RopeSpec::Kind::kYarn;
  if (name == "longrope") return RopeSpec::Kind::kLongRope;
  rope.fail(key, fmt::format("must be default, linear, dynamic, llama3, yarn or longrope; it is '{}'", name));
}

/// YaRN's softening of the attention (Peng et al., 2023, section 3.4).
double yarn_mscale(double factor, double mscale) { return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0; }

double yarn_attention_factor(const ConfigReader& rope, double factor) {
  if (rope.has("attention_factor")) return rope.number("attention_factor");
  const double mscale = rope.number("mscale", 0.0);
  const double all_dims = rope.number("mscale_all_dim", 0.0);
  if (mscale != 0.0 && all_dims != 0.0) return yarn_mscale(factor, mscale) / yarn_mscale(factor, all_dims);
  return yarn_mscale(factor, 1.0);
}

double longrope_attention_factor(const ConfigReader& rope, double factor, std::int64_t original) {
  if (rope.has("attention_factor")) return rope.number("attention_factor");
  if (factor <= 1.0) return 1.0;
  return std::sqrt(1.0 + std::log(factor) / std::log(static_cast<double>(original)));
}

std::vector<double> longrope_factors(const ConfigReader& rope, const std::string& key, std::int64_t head_dim) {
  std::vector<double> factors = rope.numbers(key);
  if (static_cast<std::int64_t>(factors.size()) != head_dim / 2) {
    rope.fail(key, fmt::format("must have head_dim / 2 = {} numbers; it has {}", head_dim / 2, factors.size()));
  }
  return factors;
}

void parse_scaled(const ConfigReader& config, const ConfigReader& rope, std::int64_t head_dim, RopeSpec& spec) {
  spec.original_max_positions = config.positive("original_max_position_embeddings",
                                                rope.positive("original_max_position_embeddings", spec.max_positions));
  // YaRN and LongRoPE files may leave the factor to the ratio of the two lengths.
  const double ratio = static_cast<double>(spec.max_positions) / static_cast<double>(spec.original_max_positions);
  const bool factor_optional = spec.kind == RopeSpec::Kind::kYarn || spec.kind == RopeSpec::Kind::kLongRope;
  spec.factor = factor_optional ? rope.number("factor", ratio) : rope.number("factor");
  if (!(spec.factor > 0.0)) rope.fail("factor", fmt::format("must be above 0; it is {}", spec.factor));
  if (spec.kind == RopeSpec::Kind::kLlama3) {
    spec.low_freq_factor = rope.number("low_freq_factor");
    spec.high_freq_factor = rope.number("high_freq_factor");
    if (!(spec.high_freq_factor > spec.low_freq_factor)) rope.fail("high_freq_factor", "must be above low_freq_factor");
  } else if (spec.kind == RopeSpec::Kind::kYarn) {
    spec.attention_factor = yarn_attention_factor(rope, spec.factor);
    spec.beta_fast = rope.number("beta_fast", 32.0);
    spec.beta_slow = rope.number("beta_slow", 1.0);
    spec.truncate = rope.boolean("truncate", true);
  } else if (spec.kind == RopeSpec::Kind::kLongRope) {
    spec.attention_factor = longrope_attention_factor(rope, spec.factor, spec.original_max_positions);
    spec.short_factor = longrope_factors(rope, "short_factor", head_dim);
    spec.long_factor = longrope_factors(rope, "long_factor", head_dim);
  }
}

}  // namespace

RopeSpec parse_rope(const ConfigReader& config, const ModelSpec& model) {
  RopeSpec spec;
  spec.max_positions = model.max_positions;
  spec.original_max_positions = model.max_positions;
  spec.theta = config.number("rope_theta", 10000.0);
  // transformers lets the older spelling win where a file has both.
  const std::string key = config.has("rope_scaling") ? "rope_scaling" : "rope_parameters";
  if (config.has(key)) {
    const ConfigReader rope = config.child(key);
    spec.theta = rope.number("rope_theta", spec.theta);
    const std::string kind_key = rope.has("rope_type") ? "rope_type" : "type";
    spec.kind = kind_of(rope, kind_key, rope.text(kind_key, "default"));
    if (rope.number("partial_rotary_factor", 1.0) != 1.0) rope.fail("partial_rotary_factor", "is not supported");
    if (spec.kind != RopeSpec::Kind::kDefault) parse_scaled(config, rope, model.head_dim, spec);
  }
  if (!(spec.theta > 0.0)) config.fail("rope_theta", fmt::format("must be above 0; it is {}", spec.theta));
  return spec;
}

}  // namespace ppctl
