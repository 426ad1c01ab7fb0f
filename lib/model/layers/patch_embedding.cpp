#include "model/layers/patch_embedding.hpp"

#include "arch/declare.hpp"
#include "base/error.hpp"

namespace ppctl {

PatchEmbedding::PatchEmbedding(const PatchEmbeddingConfig& config, at::ScalarType dtype)
    : config_(config),
      group_(config.name, dtype),
      class_token_(group_, {ppctl::class_token(config)}),
      patches_(group_, {patch_weight(config)}),
      positions_(group_, {table_weight(config.positions, config.tokens(), config.hidden_size, config.init_stddev)}),
      norm_(group_, config.norm) {}

void PatchEmbedding::bind() {
  class_token_.bind();
  patches_.bind();
  positions_.bind();
  norm_.bind();
}

at::Tensor PatchEmbedding::no_pixels() const {
  return at::empty({0, config_.channels, config_.image_size, config_.image_size},
                   at::TensorOptions().dtype(group_.dtype()));
}

at::Tensor PatchEmbedding::unfold(const at::Tensor& pixels) const {
  const std::int64_t size = config_.image_size;
  if (pixels.dim() != 4 || pixels.size(1) != config_.channels || pixels.size(2) != size || pixels.size(3) != size) {
    throw_error("images of {} channels and {} x {} pixels are wanted", config_.channels, size, size);
  }
  const std::int64_t grid = config_.grid();
  const std::int64_t patch = config_.patch_size;
  return pixels.to(group_.dtype())
      .view({pixels.size(0), config_.channels, grid, patch, grid, patch})
      .permute({0, 2, 4, 1, 3, 5})
      .reshape({pixels.size(0) * config_.num_patches(), config_.patch_elements()});
}

at::Tensor PatchEmbedding::forward(const at::Tensor& pixels, const ForwardContext& context) const {
  const std::int64_t images = pixels.size(0);
  const at::Tensor columns = unfold(pixels);
  at::Tensor x = at::empty({images, config_.tokens(), config_.hidden_size}, columns.options());
  {
    const at::Tensor kernel = patches_.data().view({config_.hidden_size, config_.patch_elements()});
    const at::Tensor embedded = at::mm(columns, kernel.t());
    x.narrow(1, 1, config_.num_patches()).copy_(embedded.view({images, config_.num_patches(), config_.hidden_size}));
  }
  x.select(1, 0).copy_(class_token_.data().expand({images, config_.hidden_size}));
  x.add_(positions_.data());
  context.save(columns);
  return norm_.forward(x, {}, context).y;
}

void PatchEmbedding::backward(const at::Tensor& dy, const BackwardContext& context) const {
  const at::Tensor dx = norm_.backward(dy, {}, context);
  context.queue.add([this, dx, columns = context.saved.pop()] {
    const at::Tensor dpatches = dx.narrow(1, 1, config_.num_patches()).reshape({-1, config_.hidden_size});
    // Sums of their own, added as a whole: see LinearOptions::separate_gradients.
    if (patches_.any_trainable()) patches_.grad().add_(at::mm(dpatches.t(), columns).view(patches_.grad().sizes()));
    if (class_token_.any_trainable()) class_token_.grad().add_(dx.select(1, 0).sum(0));
    if (positions_.any_trainable()) positions_.grad().add_(dx.sum(0));
  });
}

}  // namespace ppctl
