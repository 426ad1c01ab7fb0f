#include "model/layers/linear.hpp"

#include <ATen/core/LegacyTypeDispatch.h>

#include "arch/declare.hpp"
#include "base/error.hpp"
#include "model/kernels/embedding.hpp"

namespace ppctl {
namespace {

at::Tensor as_matrix(const at::Tensor& x) { return x.view({-1, x.size(-1)}); }

std::vector<std::int64_t> with_last(const at::Tensor& x, std::int64_t last) {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = last;
  return sizes;
}

}  // namespace

void add_product(at::Tensor grad, const at::Tensor& a, const at::Tensor& b, bool separate) {
  if (!separate && grad.scalar_type() == a.scalar_type()) {
    at::addmm_out(grad, grad, a, b);
  } else {
    grad.add_(at::mm(a, b));
  }
}

Linear::Linear(ParameterGroup& group, const LinearOptions& options)
    : layout_(options.layout),
      in_features_(options.in_features),
      out_features_(options.out_features()),
      separate_gradients_(options.separate_gradients),
      weight_(group, weights_of(options)) {
  PPCTL_CHECK(layout_ == LinearOptions::Layout::kOutIn || options.parts.size() == 1,
              "an [in, out] weight cannot be merged");
  if (options.bias) bias_ = Weight(group, biases_of(options));
}

void Linear::bind() {
  weight_.bind();
  bias_.bind();
  const bool out_in = layout_ == LinearOptions::Layout::kOutIn;
  in_out_ = out_in ? weight_.data().t() : weight_.data();
  out_in_ = out_in ? weight_.data() : weight_.data().t();
}

bool Linear::trainable() const { return weight_.any_trainable() || (bias_.declared() && bias_.any_trainable()); }

at::Tensor Linear::forward(const at::Tensor& x, const at::Tensor& residual) const {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  at::Tensor out = at::empty(with_last(x, out_features_), x.options());
  at::Tensor out_matrix = as_matrix(out);
  if (residual.defined() && bias_.declared()) {
    at::add_out(out, residual, bias_.data());
    at::addmm_out(out_matrix, out_matrix, as_matrix(x), in_out_);
  } else if (residual.defined()) {
    at::addmm_out(out_matrix, as_matrix(residual), as_matrix(x), in_out_);
  } else if (bias_.declared()) {
    at::addmm_out(out_matrix, bias_.data(), as_matrix(x), in_out_);
  } else {
    at::mm_out(out_matrix, as_matrix(x), in_out_);
  }
  return out;
}

at::Tensor Linear::input_grad(const at::Tensor& dy) const {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  at::Tensor dx = at::empty(with_last(dy, in_features_), dy.options());
  at::Tensor dx_matrix = as_matrix(dx);
  at::mm_out(dx_matrix, as_matrix(dy), out_in_);
  return dx;
}

void Linear::weight_grad(const at::Tensor& dy, const at::Tensor& x, WeightGradQueue& queue) const {
  if (!trainable()) return;
  queue.add([this, dy, x] {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    accumulate_weight(as_matrix(dy), as_matrix(x));
    accumulate_bias(as_matrix(dy));
  });
}

void Linear::accumulate_weight(const at::Tensor& dy, const at::Tensor& x) const {
  const at::Tensor& grad = weight_.grad();
  if (weight_.all_trainable()) {
    const bool out_in = layout_ == LinearOptions::Layout::kOutIn;
    add_product(grad, (out_in ? dy : x).t(), out_in ? x : dy, separate_gradients_);
    return;
  }
  // Some of the merged projections are frozen: one product for each of the others.
  std::int64_t row = 0;
  for (int i = 0; i < weight_.num_parts(); ++i) {
    const std::int64_t rows = weight_.part(i).shape[0];
    if (weight_.part(i).trainable) {
      add_product(grad.narrow(0, row, rows), dy.narrow(1, row, rows).t(), x, separate_gradients_);
    }
    row += rows;
  }
}

void Linear::accumulate_bias(const at::Tensor& dy) const {
  if (!bias_.declared() || !bias_.any_trainable()) return;
  if (bias_.all_trainable()) return kernels::add_row_sum(bias_.grad(), dy);
  std::int64_t first = 0;
  for (int i = 0; i < bias_.num_parts(); ++i) {
    const std::int64_t count = bias_.part(i).shape[0];
    if (bias_.part(i).trainable) {
      kernels::add_row_sum(bias_.grad().narrow(0, first, count), dy.narrow(1, first, count).contiguous());
    }
    first += count;
  }
}

}  // namespace ppctl
