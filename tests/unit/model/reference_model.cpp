#include "reference_model.hpp"

#include <cmath>
#include <limits>

#include "model/kernels/dropout.hpp"
#include "model/layers/rotary_embedding.hpp"
#include "reference_vision.hpp"

namespace ppctl::testing_support {
namespace {

class ReferenceModel {
 public:
  ReferenceModel(const ModelSpec& spec, std::map<std::string, at::Tensor>& parameters, const Microbatch& microbatch,
                 std::uint64_t seed)
      : spec_(spec), parameters_(parameters), microbatch_(microbatch), seed_(seed) {}

  at::Tensor objective() {
    const at::Tensor ids = microbatch_.kwargs.at("input_ids");
    const at::Tensor labels = microbatch_.kwargs.at("labels").reshape({-1});
    at::Tensor x = at::embedding(at("embed"), ids);
    if (spec_.learned_positions) x = x + at::embedding(parameters_.at("transformer.wpe.weight"), positions(ids));
    x = dropped(x, spec_.embedding_dropout, 0);
    if (spec_.vision) x = with_images(x, ids);
    for (std::int64_t i = 0; i < spec_.num_layers - spec_.num_vision_layers(); ++i) x = layer(x, i);
    const std::string norm_name = gpt2() ? "transformer.ln_f" : spec_.text_prefix + "model.norm";
    const at::Tensor logits = at::matmul(norm(x, norm_name), at("head").t()).reshape({-1, spec_.vocab_size});
    const at::Tensor objective =
        at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum) * microbatch_.loss_scale;
    return spec_.has_aux_loss() ? objective + aux_loss() * microbatch_.aux_scale : objective;
  }

 private:
  bool gpt2() const { return spec_.family == "gpt2"; }

  const at::Tensor& at(const std::string& part) {
    const std::string embedding = gpt2() ? "transformer.wte.weight" : spec_.text_prefix + "model.embed_tokens.weight";
    return parameters_.at(part == "embed" ? embedding : spec_.text_prefix + "lm_head.weight");
  }

  /// transformers': features take the places of the image tokens, in their order.
  at::Tensor with_images(const at::Tensor& x, const at::Tensor& ids) {
    const auto pixels = microbatch_.kwargs.find("pixel_values");
    if (pixels == microbatch_.kwargs.end()) return x;
    const at::Tensor features = reference_image_features(spec_, parameters_, pixels->second);
    const at::Tensor mask = ids.eq(spec_.vision->image_token).unsqueeze(-1).expand(x.sizes());
    return x.masked_scatter(mask, features);
  }

  at::Tensor positions(const at::Tensor& ids) {
    const auto given = microbatch_.kwargs.find("position_ids");
    return given != microbatch_.kwargs.end() ? given->second : at::arange(ids.size(1)).expand(ids.sizes());
  }

  at::Tensor norm(const at::Tensor& x, const std::string& name) {
    const at::Tensor weight = parameters_.at(name + ".weight");
    if (gpt2()) return at::layer_norm(x, {x.size(-1)}, weight, parameters_.at(name + ".bias"), spec_.norm_eps);
    return x * at::rsqrt(x.square().mean(-1, true) + spec_.norm_eps) * weight;
  }

  at::Tensor linear(const at::Tensor& x, const std::string& name) {
    const at::Tensor weight = parameters_.at(name + ".weight");
    at::Tensor y = at::matmul(x, gpt2() ? weight : weight.t());
    const auto bias = parameters_.find(name + ".bias");
    return bias == parameters_.end() ? y : y + bias->second;
  }

  at::Tensor dropped(const at::Tensor& x, double probability, std::uint32_t site) {
    if (probability == 0.0 || !microbatch_.training) return x;
    at::Tensor factors = at::ones_like(x.detach());
    kernels::apply_dropout({probability, seed_, microbatch_.step, site, microbatch_.first_sample}, factors);
    return x * factors;
  }

  /// Factors of the attention probabilities, [batch, heads, sequence, sequence]: rows are numbered with a length that
  /// is rounded up to 16.
  at::Tensor attention_factors(const at::Tensor& scores, std::uint32_t site) {
    const std::int64_t sequence = scores.size(-1);
    const std::int64_t row_length = (sequence + 15) / 16 * 16;
    const kernels::Dropout dropout{spec_.attention_dropout, seed_, microbatch_.step, site, microbatch_.first_sample};
    at::Tensor factors = at::empty(scores.sizes(), at::kFloat);
    auto* out = factors.mutable_data_ptr<float>();
    for (std::int64_t row = 0; row < scores.numel() / sequence; ++row) {
      const std::int64_t rows_per_sample = spec_.num_heads * sequence;
      kernels::dropout_factors(dropout, microbatch_.first_sample + row / rows_per_sample,
                               row % rows_per_sample * row_length, sequence, out + row * sequence);
    }
    return factors.to(scores.scalar_type());
  }

  at::Tensor rotated(const at::Tensor& x, const at::Tensor& position) {
    const RotaryEmbedding rope(spec_.rope, spec_.head_dim);
    const auto tables = rope.tables(position.max().item<std::int64_t>() + 1);
    const auto rows = [&](const at::Tensor& table) {
      return at::cat({table, table}, -1).to(x.scalar_type()).index({position}).unsqueeze(1);
    };
    const at::Tensor first = x.narrow(-1, 0, spec_.head_dim / 2);
    const at::Tensor second = x.narrow(-1, spec_.head_dim / 2, spec_.head_dim / 2);
    return x * rows(tables->cos) + at::cat({-second, first}, -1) * rows(tables->sin);
  }

  at::Tensor heads(const at::Tensor& x, std::int64_t count) {
    return x.reshape({x.size(0), x.size(1), count, spec_.head_dim}).transpose(1, 2);
  }

  at::Tensor attention(const at::Tensor& x, const std::string& prefix, std::int64_t index) {
    at::Tensor q, k, v;
    if (gpt2()) {
      const std::vector<at::Tensor> parts = linear(x, prefix + "c_attn").chunk(3, -1);
      q = heads(parts[0], spec_.num_heads);
      k = heads(parts[1], spec_.num_heads);
      v = heads(parts[2], spec_.num_heads);
    } else {
      q = heads(linear(x, prefix + "q_proj"), spec_.num_heads);
      k = heads(linear(x, prefix + "k_proj"), spec_.num_kv_heads);
      v = heads(linear(x, prefix + "v_proj"), spec_.num_kv_heads);
      if (spec_.head_norm) {
        q = norm(q, prefix + "q_norm");
        k = norm(k, prefix + "k_norm");
      }
      q = rotated(q, positions(microbatch_.kwargs.at("input_ids")));
      k = rotated(k, positions(microbatch_.kwargs.at("input_ids")));
    }
    k = k.repeat_interleave(spec_.num_heads / spec_.num_kv_heads, 1);
    v = v.repeat_interleave(spec_.num_heads / spec_.num_kv_heads, 1);
    double scale = spec_.scale_attention ? 1.0 / std::sqrt(static_cast<double>(spec_.head_dim)) : 1.0;
    if (spec_.scale_attention_by_layer) scale /= static_cast<double>(index + 1);
    const at::Tensor future = at::ones({x.size(1), x.size(1)}, at::kBool).triu(1);
    const at::Tensor scores =
        (at::matmul(q, k.transpose(-1, -2)) * scale).masked_fill(future, -std::numeric_limits<double>::infinity());
    at::Tensor probabilities = scores.softmax(-1);
    if (spec_.attention_dropout > 0.0 && microbatch_.training) {
      probabilities = probabilities * attention_factors(probabilities, static_cast<std::uint32_t>(index + 1) * 4);
    }
    const at::Tensor out = at::matmul(probabilities, v).transpose(1, 2).reshape({x.size(0), x.size(1), -1});
    return linear(out, prefix + (gpt2() ? "c_proj" : "o_proj"));
  }

  at::Tensor activated(const at::Tensor& x) {
    switch (spec_.activation) {
      case Activation::kSilu:
        return at::silu(x);
      case Activation::kGeluTanh:
        return at::gelu(x, "tanh");
      case Activation::kGeluErf:
        return at::gelu(x);
      case Activation::kQuickGelu:
        return x * at::sigmoid(1.702 * x);
      case Activation::kRelu:
        return at::relu(x);
    }
    return {};
  }

  /// transformers' load_balancing_loss_func.
  at::Tensor aux_loss() {
    const at::Tensor probabilities = at::cat(router_probabilities_);
    const at::Tensor chosen = std::get<1>(probabilities.topk(spec_.experts_per_token));
    const at::Tensor mask = at::zeros_like(probabilities.detach()).scatter(1, chosen, 1.0);
    return spec_.aux_loss_coefficient * static_cast<double>(spec_.num_experts) *
           (mask.mean(0) * probabilities.mean(0)).sum();
  }

  /// Every expert computes every token; what counts is chosen by a mask.
  at::Tensor experts(const at::Tensor& x, const std::string& layer) {
    const bool mixtral = spec_.family == "mixtral";
    const std::string prefix = layer + (mixtral ? ".block_sparse_moe." : ".mlp.");
    const at::Tensor probabilities = linear(x, prefix + "gate").softmax(-1);
    router_probabilities_.push_back(probabilities.reshape({-1, spec_.num_experts}));
    const auto [top, chosen] = probabilities.topk(spec_.experts_per_token);
    const at::Tensor weights = spec_.renormalise_experts ? top / top.sum(-1, true) : top;
    const at::Tensor by_expert = at::zeros_like(probabilities).scatter(-1, chosen, weights);
    at::Tensor sum = at::zeros_like(x);
    for (std::int64_t e = 0; e < spec_.num_experts; ++e) {
      const std::string expert = prefix + "experts." + std::to_string(e) + (mixtral ? ".w" : ".");
      const at::Tensor inner = activated(linear(x, expert + (mixtral ? "1" : "gate_proj"))) *
                               linear(x, expert + (mixtral ? "3" : "up_proj"));
      sum = sum + by_expert.narrow(-1, e, 1) * linear(inner, expert + (mixtral ? "2" : "down_proj"));
    }
    return sum;
  }

  at::Tensor mlp(const at::Tensor& x, const std::string& layer) {
    if (gpt2()) return linear(activated(linear(x, layer + ".mlp.c_fc")), layer + ".mlp.c_proj");
    return linear(activated(linear(x, layer + ".mlp.gate_proj")) * linear(x, layer + ".mlp.up_proj"),
                  layer + ".mlp.down_proj");
  }

  at::Tensor layer(const at::Tensor& x, std::int64_t index) {
    const auto site = static_cast<std::uint32_t>(index + 1) * kDropoutSitesPerLayer;
    const std::string prefix =
        (gpt2() ? "transformer.h." : spec_.text_prefix + "model.layers.") + std::to_string(index);
    const at::Tensor attended = attention(norm(x, prefix + (gpt2() ? ".ln_1" : ".input_layernorm")),
                                          prefix + (gpt2() ? ".attn." : ".self_attn."), index);
    const at::Tensor middle = x + dropped(attended, spec_.residual_dropout, site + 1);
    const at::Tensor normed = norm(middle, prefix + (gpt2() ? ".ln_2" : ".post_attention_layernorm"));
    const at::Tensor added = spec_.has_experts(index) ? experts(normed, prefix) : mlp(normed, prefix);
    return middle + dropped(added, spec_.residual_dropout, site + 2);
  }

  const ModelSpec& spec_;
  std::map<std::string, at::Tensor>& parameters_;
  const Microbatch& microbatch_;
  std::uint64_t seed_;
  std::vector<at::Tensor> router_probabilities_;  ///< of each layer with experts
};

}  // namespace

std::map<std::string, at::Tensor> leaf_parameters(StageModule& stage) {
  std::map<std::string, at::Tensor> leaves;
  for (ParameterGroup* group : stage.parameter_groups()) {
    for (std::size_t i = 0; i < group->parameters().size(); ++i) {
      leaves[group->parameters()[i].name] = group->data(static_cast<int>(i)).clone().requires_grad_();
    }
  }
  return leaves;
}

at::Tensor reference_objective(const ModelSpec& spec, std::map<std::string, at::Tensor>& parameters,
                               const Microbatch& microbatch, std::uint64_t dropout_seed) {
  return ReferenceModel(spec, parameters, microbatch, dropout_seed).objective();
}

}  // namespace ppctl::testing_support
