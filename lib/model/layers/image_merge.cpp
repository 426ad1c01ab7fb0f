#include "model/layers/image_merge.hpp"

#include "arch/declare.hpp"
#include "base/error.hpp"
#include "model/kernels/activation.hpp"
#include "model/kernels/embedding.hpp"

namespace ppctl {
namespace {

/// Where `ids` are, or are not, the image token: positions in the flattened microbatch.
at::Tensor places(const at::Tensor& ids, std::int64_t image_token, bool images) {
  const at::Tensor flat = ids.view({-1});
  return (images ? flat.eq(image_token) : flat.ne(image_token)).nonzero().view({-1});
}

}  // namespace

at::Tensor input_ids(const Microbatch& microbatch) {
  const auto found = microbatch.kwargs.find("input_ids");
  if (found != microbatch.kwargs.end()) return found->second.contiguous();
  PPCTL_CHECK(!microbatch.args.empty(), "the stage has neither 'input_ids' nor a positional input");
  return microbatch.args[0].contiguous();
}

ImageMerge::ImageMerge(const ImageMergeConfig& config, at::ScalarType dtype)
    : Layer(config.name, dtype),
      config_(config),
      in_(group_, config.in),
      out_(group_, config.out),
      tokens_(group_, {table_weight(config.tokens.tokens, config.tokens.vocab_size, config.tokens.hidden_size,
                                    config.tokens.init_stddev)}) {}

void ImageMerge::bind() {
  in_.bind();
  out_.bind();
  tokens_.bind();
}

at::Tensor ImageMerge::project(const at::Tensor& x, const ForwardContext& context) const {
  const at::Tensor chosen = config_.keeps_class_token ? x : x.narrow(1, 1, config_.features_per_image()).contiguous();
  const at::Tensor inner = in_.forward(chosen);
  context.save(chosen);
  context.save(inner);
  return out_.forward(kernels::activate(inner, config_.activation));
}

at::Tensor ImageMerge::project_backward(const at::Tensor& dfeatures, const BackwardContext& context) const {
  const at::Tensor inner = context.saved.pop();
  const at::Tensor chosen = context.saved.pop();
  const at::Tensor dactivated = out_.input_grad(dfeatures);
  const at::Tensor activated = at::empty(dactivated.sizes(), dactivated.options());
  const at::Tensor dinner = kernels::activate_backward(dactivated, inner, config_.activation, activated);
  out_.weight_grad(dfeatures, activated, context.queue);
  in_.weight_grad(dinner, chosen, context.queue);
  if (!config_.gives_image_gradient) return {};
  const at::Tensor dchosen = in_.input_grad(dinner);
  if (config_.keeps_class_token) return dchosen;
  at::Tensor dx = at::zeros({dchosen.size(0), config_.image_tokens, dchosen.size(2)}, dchosen.options());
  dx.narrow(1, 1, config_.features_per_image()).copy_(dchosen);
  return dx;
}

at::Tensor ImageMerge::forward(const at::Tensor& x, const ForwardContext& context) const {
  const at::Tensor ids = input_ids(context.microbatch);
  const at::Tensor where = places(ids, config_.image_token, true);
  const std::int64_t features = x.size(0) * config_.features_per_image();
  if (where.size(0) != features) {
    throw_error("microbatch {} has {} image tokens, but {} images make {} features", context.microbatch.global_index,
                where.size(0), x.size(0), features);
  }
  const at::Tensor projected = project(x, context);
  at::Tensor embedded = kernels::gather_rows(tokens_.data(), ids);
  embedded.view({-1, embedded.size(2)}).index_copy_(0, where, projected.view({-1, embedded.size(2)}));
  context.save(ids);
  return embedded;
}

at::Tensor ImageMerge::backward(const at::Tensor& dy, const BackwardContext& context) const {
  const at::Tensor ids = context.saved.pop();
  const at::Tensor rows = dy.view({-1, dy.size(2)});
  if (tokens_.any_trainable()) {
    const at::Tensor text = places(ids, config_.image_token, false);
    context.queue.add([this, ids = ids.view({-1}).index_select(0, text), dtext = rows.index_select(0, text)] {
      kernels::scatter_add_rows(tokens_.grad(), ids, dtext);
    });
  }
  const at::Tensor where = places(ids, config_.image_token, true);
  const std::int64_t images = where.size(0) / config_.features_per_image();
  return project_backward(rows.index_select(0, where).view({images, config_.features_per_image(), dy.size(2)}),
                          context);
}

}  // namespace ppctl
