#include "reference_vision.hpp"

#include <ATen/ops/conv2d.h>

#include <cmath>

namespace ppctl::testing_support {
namespace {

class ReferenceVision {
 public:
  ReferenceVision(const ModelSpec& spec, const std::map<std::string, at::Tensor>& parameters)
      : vision_(*spec.vision), parameters_(parameters) {}

  at::Tensor features(const at::Tensor& pixels) const {
    at::Tensor x = embedded(pixels);
    for (std::int64_t i = 0; i < vision_.used_layers; ++i) {
      x = layer(x, vision_.prefix + "encoder.layers." + std::to_string(i) + ".");
    }
    if (!vision_.keeps_class_token) x = x.slice(1, 1);
    const std::string projector = "multi_modal_projector.linear_";
    const at::Tensor inner = activated(linear(x, projector + "1"), vision_.projector_activation);
    const at::Tensor projected = linear(inner, projector + "2");
    return projected.reshape({-1, projected.size(-1)});
  }

 private:
  const at::Tensor& get(const std::string& name) const { return parameters_.at(name); }

  at::Tensor linear(const at::Tensor& x, const std::string& name) const {
    const at::Tensor y = at::matmul(x, get(name + ".weight").t());
    const auto bias = parameters_.find(name + ".bias");
    return bias == parameters_.end() ? y : y + bias->second;
  }

  at::Tensor norm(const at::Tensor& x, const std::string& name) const {
    return at::layer_norm(x, {x.size(-1)}, get(name + ".weight"), get(name + ".bias"), vision_.norm_eps);
  }

  static at::Tensor activated(const at::Tensor& x, Activation activation) {
    return activation == Activation::kQuickGelu ? x * at::sigmoid(1.702 * x) : at::gelu(x);
  }

  at::Tensor embedded(const at::Tensor& pixels) const {
    const std::string embeddings = vision_.prefix + "embeddings.";
    const at::Tensor patches = at::conv2d(pixels, get(embeddings + "patch_embedding.weight"), {}, vision_.patch_size)
                                   .flatten(2)
                                   .transpose(1, 2);
    const at::Tensor class_token = get(embeddings + "class_embedding").expand({pixels.size(0), 1, vision_.hidden_size});
    const at::Tensor x = at::cat({class_token, patches}, 1) + get(embeddings + "position_embedding.weight");
    return norm(x, vision_.prefix + "pre_layrnorm");
  }

  at::Tensor attention(const at::Tensor& x, const std::string& prefix) const {
    const std::int64_t head_dim = vision_.hidden_size / vision_.num_heads;
    const auto heads = [&](const char* name) {
      return linear(x, prefix + name).reshape({x.size(0), x.size(1), vision_.num_heads, head_dim}).transpose(1, 2);
    };
    const at::Tensor scores =
        at::matmul(heads("q_proj"), heads("k_proj").transpose(-1, -2)) / std::sqrt(static_cast<double>(head_dim));
    const at::Tensor out = at::matmul(scores.softmax(-1), heads("v_proj")).transpose(1, 2).reshape(x.sizes());
    return linear(out, prefix + "out_proj");
  }

  at::Tensor layer(const at::Tensor& x, const std::string& prefix) const {
    const at::Tensor middle = x + attention(norm(x, prefix + "layer_norm1"), prefix + "self_attn.");
    const at::Tensor inner = linear(norm(middle, prefix + "layer_norm2"), prefix + "mlp.fc1");
    return middle + linear(activated(inner, vision_.activation), prefix + "mlp.fc2");
  }

  const VisionSpec& vision_;
  const std::map<std::string, at::Tensor>& parameters_;
};

}  // namespace

at::Tensor reference_image_features(const ModelSpec& spec, const std::map<std::string, at::Tensor>& parameters,
                                    const at::Tensor& pixels) {
  return ReferenceVision(spec, parameters).features(pixels);
}

}  // namespace ppctl::testing_support
