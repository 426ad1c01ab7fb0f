// Local variables and temporaries live as long as those of lib/model/layers: that is what makes peaks exact.

#include "arch/sketch_layers.hpp"

#include <optional>

namespace ppctl {
namespace {

constexpr std::int64_t kIdBytes = 8;

SketchTensor linear_forward(const LinearOptions& linear, const Sketch& sketch) {
  return sketch.activation(linear.out_features());
}

SketchTensor linear_input_grad(const LinearOptions& linear, const Sketch& sketch) {
  return sketch.activation(linear.in_features);
}

/// dW += dy^T x, for which `dy` and `x` are held. Where gradients have more digits than what is computed with, the
/// product has a tensor of its own, and the addition one of the gradient's dtype.
void linear_weight_grad(const LinearOptions& linear, const SketchTensor& dy, const SketchTensor& x, Sketch& sketch) {
  const SketchShape& shape = sketch.shape;
  const bool converts = shape.accumulator_bytes() != shape.element_bytes;
  const std::int64_t elements = linear.in_features * linear.out_features();
  const std::int64_t product = converts || linear.separate_gradients ? elements * shape.element_bytes : 0;
  sketch.add_work({{dy, x}, product + (converts ? elements * shape.accumulator_bytes() : 0)});
}

/// What a backward adds the gradient of a small weight to that it knows at once: the accumulator, or a buffer that
/// waits with the rest of the microbatch's weight gradients.
void wanted_grad(std::int64_t size, Sketch& sketch) {
  if (sketch.defer) sketch.add_work({{SketchTensor(sketch.account, size * sketch.shape.accumulator_bytes())}});
}

struct NormedSketch {
  SketchTensor y;
  SketchTensor sum;
};

NormedSketch norm_forward(const NormOptions& norm, const SketchTensor& x, bool has_residual, Sketch& sketch) {
  NormedSketch out{sketch.activation(norm.size), has_residual ? sketch.activation(norm.size) : x};
  const SketchTensor statistics = sketch.statistics(norm.statistics_per_row());
  sketch.save(out.sum);
  sketch.save(statistics);
  return out;
}

SketchTensor norm_backward(const NormOptions& norm, Sketch& sketch) {
  const SketchTensor statistics = sketch.pop();
  const SketchTensor x = sketch.pop();
  wanted_grad(norm.size, sketch);
  if (norm.kind == NormKind::kLayer) wanted_grad(norm.size, sketch);
  return sketch.activation(norm.size);
}

SketchTensor attention_forward(const AttentionConfig& config, const SketchTensor& x, bool wants_output,
                               Sketch& sketch) {
  sketch.save(x);
  SketchTensor qkv = linear_forward(config.qkv, sketch);
  if (config.has_head_norm()) {
    sketch.save(qkv);
    const SketchTensor normed = sketch.activation(config.heads.width());
    const SketchTensor statistics = sketch.statistics(config.heads.heads + config.heads.kv_heads);
    qkv = normed;
    sketch.save(statistics);
  }
  const SketchTensor out = sketch.activation(config.heads.heads * config.heads.head_dim);
  const SketchTensor log_sum_exp = sketch.statistics(config.heads.heads);
  sketch.save(qkv);
  sketch.save(out);
  sketch.save(log_sum_exp);
  if (!wants_output) return {};
  return linear_forward(config.output, sketch);
}

SketchTensor attention_backward(const AttentionConfig& config, const SketchTensor& dy, Sketch& sketch) {
  const SketchTensor log_sum_exp = sketch.pop();
  const SketchTensor out = sketch.pop();
  const SketchTensor qkv = sketch.pop();
  linear_weight_grad(config.output, dy, out, sketch);
  SketchTensor dqkv;
  {
    const SketchTensor dout = linear_input_grad(config.output, sketch);
    dqkv = sketch.activation(config.heads.width());
  }
  if (config.has_head_norm()) {
    const SketchTensor statistics = sketch.pop();
    const SketchTensor raw = sketch.pop();
    wanted_grad(config.heads.head_dim, sketch);
    wanted_grad(config.heads.head_dim, sketch);
  }
  linear_weight_grad(config.qkv, dqkv, sketch.pop(), sketch);
  return linear_input_grad(config.qkv, sketch);
}

SketchTensor mlp_forward(const MlpConfig& config, const SketchTensor& x, bool wants_output, Sketch& sketch) {
  const SketchTensor inner = linear_forward(config.in, sketch);
  sketch.save(x);
  sketch.save(inner);
  if (!wants_output) return {};
  const SketchTensor activated = sketch.activation(config.down.in_features);
  return linear_forward(config.down, sketch);
}

SketchTensor mlp_backward(const MlpConfig& config, const SketchTensor& dy, Sketch& sketch) {
  const SketchTensor inner = sketch.pop();
  const SketchTensor dactivated = linear_input_grad(config.down, sketch);
  const SketchTensor activated = sketch.copy_of(dactivated);
  const SketchTensor dinner = sketch.activation(config.in.out_features());
  linear_weight_grad(config.down, dy, activated, sketch);
  linear_weight_grad(config.in, dinner, sketch.pop(), sketch);
  return linear_input_grad(config.in, sketch);
}

/// Rows that go to the experts held here. That depends on the data: with all experts here it is every token's choices,
/// else the share that balanced routing brings, from all ranks together as many as this rank's tokens have choices.
std::int64_t expert_rows(const MoeConfig& moe, const Sketch& sketch) { return sketch.shape.tokens() * moe.top_k; }

SketchTensor rows_of(std::int64_t rows, std::int64_t width, const Sketch& sketch) {
  return {sketch.account, rows * width * sketch.shape.element_bytes};
}

constexpr std::int64_t kIndexBytes = 8;

/// dW += dy^T x of each expert, one after the other.
void grouped_weight_grad(const LinearOptions& linear, std::int64_t num_experts, const SketchTensor& dy,
                         const SketchTensor& x, Sketch& sketch) {
  const SketchShape& shape = sketch.shape;
  const bool direct = shape.accumulator_bytes() == shape.element_bytes;
  const std::int64_t elements = linear.in_features * linear.out_features() / num_experts;
  sketch.add_work({{dy, x}, direct ? 0 : elements * (shape.element_bytes + shape.accumulator_bytes())});
}

SketchTensor moe_forward(const MoeConfig& moe, const SketchTensor& x, bool wants_output, Sketch& sketch) {
  const std::int64_t num_rows = expert_rows(moe, sketch);
  SketchTensor probabilities, experts, weights;
  {
    const SketchTensor logits = linear_forward(moe.router, sketch);
    probabilities = sketch.statistics(moe.num_experts);
    experts = {sketch.account, num_rows * kIndexBytes};
    weights = sketch.statistics(moe.top_k);
  }
  SketchTensor held = rows_of(num_rows, moe.hidden_size(), sketch);
  if (!moe.holds_all()) held = sketch.copy_of(held);  // what is sent lives until all has come
  const SketchTensor inner = rows_of(num_rows, 2 * moe.expert_size(), sketch);
  SketchTensor out;
  {
    const SketchTensor activated = rows_of(num_rows, moe.expert_size(), sketch);
    out = rows_of(num_rows, moe.hidden_size(), sketch);
  }
  for (const SketchTensor& tensor : {x, probabilities, experts, weights, held, inner}) sketch.save(tensor);
  if (!moe.holds_all()) {
    sketch.save({sketch.account, moe.num_experts * kIndexBytes});
    out = sketch.copy_of(out);
  }
  sketch.save(out);
  if (!wants_output) return {};
  return sketch.activation(moe.hidden_size());
}

SketchTensor moe_backward(const MoeConfig& moe, const SketchTensor& /*dy*/, Sketch& sketch) {
  const std::int64_t num_rows = expert_rows(moe, sketch);
  SketchTensor routed = sketch.pop();
  const SketchTensor held_counts = moe.holds_all() ? SketchTensor() : sketch.pop();
  const SketchTensor inner = sketch.pop();
  const SketchTensor rows = sketch.pop();
  const SketchTensor weights = sketch.pop();
  const SketchTensor experts = sketch.pop();
  const SketchTensor probabilities = sketch.pop();
  const SketchTensor tokens = sketch.pop();
  SketchTensor dout = rows_of(num_rows, moe.hidden_size(), sketch);
  const SketchTensor dweights = sketch.statistics(moe.top_k);
  routed = {};
  const SketchTensor dlogits = sketch.activation(moe.num_experts);
  SketchTensor dx = linear_input_grad(moe.router, sketch);
  linear_weight_grad(moe.router, dlogits, tokens, sketch);
  if (!moe.holds_all()) dout = sketch.copy_of(dout);
  const SketchTensor dactivated = rows_of(num_rows, moe.expert_size(), sketch);
  const SketchTensor activated = sketch.copy_of(dactivated);
  const SketchTensor dinner = rows_of(num_rows, 2 * moe.expert_size(), sketch);
  const SketchTensor drows = rows_of(num_rows, moe.hidden_size(), sketch);
  const SketchTensor received = moe.holds_all() ? drows : sketch.copy_of(drows);
  grouped_weight_grad(moe.down, moe.num_held, dout, activated, sketch);
  grouped_weight_grad(moe.gate_up, moe.num_held, dinner, rows, sketch);
  return dx;
}

SketchTensor attend(const DecoderLayerConfig& config, const SketchTensor& x, bool wants_output, Sketch& sketch) {
  const NormedSketch normed = norm_forward(config.attention_norm, x, /*has_residual=*/false, sketch);
  return attention_forward(config.attention, normed.y, wants_output, sketch);
}

SketchTensor feed_forward(const DecoderLayerConfig& config, const SketchTensor& x, bool wants_output, Sketch& sketch) {
  return config.moe ? moe_forward(*config.moe, x, wants_output, sketch)
                    : mlp_forward(config.feed_forward, x, wants_output, sketch);
}

SketchTensor run_layer(const DecoderLayerConfig& config, const SketchTensor& x, const RecomputeParts& recompute,
                       bool wants_output, Sketch& sketch) {
  if (recompute.attention) sketch.save(x);
  SketchTensor attended;
  {
    const Sketch::Pause pause(sketch, recompute.attention);
    attended = attend(config, x, /*wants_output=*/true, sketch);
  }
  std::optional<Sketch::Pause> pause(std::in_place, sketch, recompute.feed_forward);
  const NormedSketch normed = norm_forward(config.feed_forward_norm, x, /*has_residual=*/true, sketch);
  SketchTensor y = feed_forward(config, normed.y, wants_output, sketch);
  pause.reset();
  if (recompute.feed_forward) sketch.save(normed.sum);
  return y;
}

/// int64, [samples, sequence]; of one sample it is the row of numbers itself.
SketchTensor positions(const Sketch& sketch) {
  const SketchTensor row(sketch.account, sketch.shape.sequence * 8);
  return sketch.shape.samples == 1 ? row : SketchTensor(sketch.account, sketch.shape.tokens() * 8);
}

}  // namespace

SketchTensor sketch_forward(const TokenEmbeddingConfig& config, const SketchTensor& ids, Sketch& sketch) {
  SketchTensor x = sketch.activation(config.hidden_size);
  if (!config.positions.empty()) {
    const SketchTensor places = positions(sketch);
    const SketchTensor rows = sketch.activation(config.hidden_size);
  }
  sketch.save(ids);
  return x;
}

void sketch_backward(const TokenEmbeddingConfig& config, const SketchTensor& dy, Sketch& sketch) {
  const SketchTensor ids = sketch.pop();
  const SketchTensor dx = config.dropout > 0.0 ? sketch.copy_of(dy) : dy;
  const SketchTensor places = config.positions.empty() ? SketchTensor() : positions(sketch);
  sketch.add_work({{ids, places, dx}});
}

SketchTensor sketch_forward(const DecoderLayerConfig& config, const SketchTensor& x, Sketch& sketch) {
  if (!config.recompute.whole) return run_layer(config, x, config.recompute, /*wants_output=*/true, sketch);
  sketch.save(x);
  const Sketch::Pause pause(sketch);
  return run_layer(config, x, {}, /*wants_output=*/true, sketch);
}

SketchTensor sketch_backward(const DecoderLayerConfig& config, const SketchTensor& dy, Sketch& sketch) {
  const auto dropped = [&](const SketchTensor& gradient) {
    return config.residual_dropout > 0.0 ? sketch.copy_of(gradient) : gradient;
  };
  const RecomputeParts& recompute = config.recompute;
  if (recompute.whole) run_layer(config, sketch.pop(), {}, /*wants_output=*/false, sketch);
  if (recompute.feed_forward && !recompute.whole) {
    const SketchTensor sum = sketch.pop();
    const NormedSketch normed = norm_forward(config.feed_forward_norm, sum, /*has_residual=*/false, sketch);
    feed_forward(config, normed.y, /*wants_output=*/false, sketch);
  }
  const SketchTensor dnormed = config.moe ? moe_backward(*config.moe, dropped(dy), sketch)
                                          : mlp_backward(config.feed_forward, dropped(dy), sketch);
  const SketchTensor dsum = norm_backward(config.feed_forward_norm, sketch);
  if (recompute.attention && !recompute.whole) attend(config, sketch.pop(), /*wants_output=*/false, sketch);
  const SketchTensor dattention_input = attention_backward(config.attention, dropped(dsum), sketch);
  return norm_backward(config.attention_norm, sketch);
}

SketchTensor sketch_forward(const PatchEmbeddingConfig& config, Sketch& sketch) {
  const std::int64_t patches = sketch.shape.samples * config.num_patches();
  const SketchTensor columns(sketch.account, patches * config.patch_elements() * sketch.shape.element_bytes);
  const SketchTensor x = sketch.activation(config.hidden_size);
  {
    const SketchTensor embedded(sketch.account, patches * config.hidden_size * sketch.shape.element_bytes);
  }
  sketch.save(columns);
  return norm_forward(config.norm, x, /*has_residual=*/false, sketch).y;
}

void sketch_backward(const PatchEmbeddingConfig& config, Sketch& sketch) {
  const SketchTensor dx = norm_backward(config.norm, sketch);
  const std::int64_t element = sketch.shape.element_bytes;
  const std::int64_t dpatches = sketch.shape.samples * config.num_patches() * config.hidden_size * element;
  const std::int64_t product = config.hidden_size * config.patch_elements() * element;
  sketch.add_work({{dx, sketch.pop()}, dpatches + product});
}

SketchTensor sketch_forward(const ImageMergeConfig& config, const SketchTensor& x, const SketchTensor& ids,
                            std::int64_t images, Sketch& sketch) {
  const std::int64_t features = images * config.features_per_image();
  const auto rows = [&](std::int64_t width) {
    return SketchTensor(sketch.account, features * width * sketch.shape.element_bytes);
  };
  const SketchTensor where(sketch.account, features * kIdBytes);
  SketchTensor projected;
  {
    const SketchTensor chosen = config.keeps_class_token ? x : rows(config.in.in_features);
    const SketchTensor inner = rows(config.in.out_features());
    sketch.save(chosen);
    sketch.save(inner);
    const SketchTensor activated = rows(config.in.out_features());
    projected = rows(config.out.out_features());
  }
  SketchTensor embedded = sketch.activation(config.tokens.hidden_size);
  sketch.save(ids);
  return embedded;
}

SketchTensor sketch_backward(const ImageMergeConfig& config, std::int64_t images, Sketch& sketch) {
  const SketchTensor ids = sketch.pop();
  const std::int64_t features = images * config.features_per_image();
  const std::int64_t element = sketch.shape.element_bytes;
  const auto rows = [&](std::int64_t width) { return SketchTensor(sketch.account, features * width * element); };
  const std::int64_t text = sketch.shape.tokens() - features;
  sketch.add_work({{SketchTensor(sketch.account, text * kIdBytes),
                    SketchTensor(sketch.account, text * config.tokens.hidden_size * element)}});
  const SketchTensor where(sketch.account, features * kIdBytes);
  const SketchTensor dfeatures = rows(config.out.out_features());
  const SketchTensor inner = sketch.pop();
  const SketchTensor chosen = sketch.pop();
  const SketchTensor dactivated = rows(config.out.in_features);
  const SketchTensor activated = sketch.copy_of(dactivated);
  const SketchTensor dinner = rows(config.in.out_features());
  linear_weight_grad(config.out, dfeatures, activated, sketch);
  linear_weight_grad(config.in, dinner, chosen, sketch);
  if (!config.gives_image_gradient) return {};
  const SketchTensor dchosen = rows(config.in.in_features);
  if (config.keeps_class_token) return dchosen;
  return {sketch.account, images * config.image_tokens * config.in.in_features * element};
}

void sketch_forward(const LanguageHeadConfig& config, const SketchTensor& x, Sketch& sketch) {
  const SketchTensor normed = norm_forward(config.norm, x, /*has_residual=*/false, sketch).y;
  const SketchTensor logits = linear_forward(config.projection, sketch);
  sketch.save(normed);
  sketch.save(logits);
}

SketchTensor sketch_backward(const LanguageHeadConfig& config, Sketch& sketch) {
  const SketchTensor gradient = sketch.pop();
  linear_weight_grad(config.projection, gradient, sketch.pop(), sketch);
  const SketchTensor dnormed = linear_input_grad(config.projection, sketch);
  return norm_backward(config.norm, sketch);
}

}  // namespace ppctl
