#include "model/layers/grouped_linear.hpp"

#include <ATen/core/LegacyTypeDispatch.h>

#include <utility>

#include "arch/declare.hpp"
#include "base/error.hpp"
#include "model/layers/linear.hpp"

namespace ppctl {
namespace {

/// Calls `function(expert, first row, rows)` for each expert that has some.
template <class Function>
void for_each_expert(const GroupedLinear::Counts& counts, Function&& function) {
  std::int64_t first = 0;
  for (std::size_t expert = 0; expert < counts.size(); ++expert) {
    if (counts[expert] > 0) function(static_cast<std::int64_t>(expert), first, counts[expert]);
    first += counts[expert];
  }
}

}  // namespace

GroupedLinear::GroupedLinear(ParameterGroup& group, const LinearOptions& options, std::int64_t num_experts)
    : in_(options.in_features),
      out_(options.out_features() / num_experts),
      parts_(static_cast<int>(static_cast<std::int64_t>(options.parts.size()) / num_experts)),
      weight_(group, weights_of(options)) {
  PPCTL_CHECK(options.layout == LinearOptions::Layout::kOutIn && !options.bias, "experts are [out, in], without bias");
  PPCTL_CHECK_EQ(static_cast<std::int64_t>(options.parts.size()), num_experts * parts_);
}

at::Tensor GroupedLinear::forward(const at::Tensor& x, const Counts& counts) const {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  at::Tensor y = at::empty({x.size(0), out_}, x.options());
  for_each_expert(counts, [&](std::int64_t expert, std::int64_t first, std::int64_t rows) {
    at::Tensor out = y.narrow(0, first, rows);
    at::mm_out(out, x.narrow(0, first, rows), weight_of(expert).t());
  });
  return y;
}

at::Tensor GroupedLinear::input_grad(const at::Tensor& dy, const Counts& counts) const {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  at::Tensor dx = at::empty({dy.size(0), in_}, dy.options());
  for_each_expert(counts, [&](std::int64_t expert, std::int64_t first, std::int64_t rows) {
    at::Tensor out = dx.narrow(0, first, rows);
    at::mm_out(out, dy.narrow(0, first, rows), weight_of(expert));
  });
  return dx;
}

void GroupedLinear::weight_grad(const at::Tensor& dy, const at::Tensor& x, Counts counts,
                                WeightGradQueue& queue) const {
  if (!weight_.any_trainable()) return;
  queue.add([this, dy, x, counts = std::move(counts)] {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    for_each_expert(counts, [&](std::int64_t expert, std::int64_t first, std::int64_t rows) {
      accumulate(expert, dy.narrow(0, first, rows), x.narrow(0, first, rows));
    });
  });
}

void GroupedLinear::accumulate(std::int64_t expert, const at::Tensor& dy, const at::Tensor& x) const {
  const at::Tensor grad = weight_.grad().narrow(0, expert * out_, out_);
  if (weight_.all_trainable()) return add_product(grad, dy.t(), x);
  // Some are frozen: one product for each of the others.
  std::int64_t row = 0;
  for (int part = 0; part < parts_; ++part) {
    const Parameter& parameter = weight_.part(static_cast<int>(expert) * parts_ + part);
    const std::int64_t rows = parameter.shape[0];
    if (parameter.trainable) add_product(grad.narrow(0, row, rows), dy.narrow(1, row, rows).t(), x);
    row += rows;
  }
}

}  // namespace ppctl
