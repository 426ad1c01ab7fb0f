#include "model/kernels/routing.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/kernels/dispatch.hpp"
#include "model/kernels/simd.hpp"

namespace ppctl::kernels {
namespace {

template <class T>
void softmax(const T* logits, Accumulator<T>* probabilities, std::int64_t n) {
  using A = Accumulator<T>;
  A largest = static_cast<A>(logits[0]);
  for (std::int64_t e = 1; e < n; ++e) largest = std::max(largest, static_cast<A>(logits[e]));
  A sum = 0;
  for (std::int64_t e = 0; e < n; ++e) {
    probabilities[e] = std::exp(static_cast<A>(logits[e]) - largest);
    sum += probabilities[e];
  }
  for (std::int64_t e = 0; e < n; ++e) probabilities[e] /= sum;
}

/// The k likeliest of n experts: k passes, as k is small.
template <class A>
void choose(const A* probabilities, std::int64_t n, std::int64_t k, std::int64_t* experts, A* weights) {
  for (std::int64_t j = 0; j < k; ++j) {
    std::int64_t best = -1;
    for (std::int64_t e = 0; e < n; ++e) {
      if (std::find(experts, experts + j, e) != experts + j) continue;
      // A probability that is not a number is below all others, so that there is always a choice.
      if (best < 0 || probabilities[e] > probabilities[best]) best = e;
    }
    experts[j] = best;
    weights[j] = probabilities[best];
  }
}

template <class T>
PPCTL_VECTORISED void add_scaled(Accumulator<T>* sum, Accumulator<T> factor, const T* row, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) sum[i] += factor * static_cast<Accumulator<T>>(row[i]);
}

template <class T>
PPCTL_VECTORISED void scale_row(T* out, Accumulator<T> factor, const T* row, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(factor * static_cast<Accumulator<T>>(row[i]));
}

template <class T>
PPCTL_VECTORISED Accumulator<T> dot(const T* a, const T* b, std::int64_t n) {
  Accumulator<T> sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<Accumulator<T>>(a[i]) * static_cast<Accumulator<T>>(b[i]);
  return sum;
}

template <class T>
void to_accumulator(const T* from, Accumulator<T>* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<Accumulator<T>>(from[i]);
}

template <class T>
void from_accumulator(const Accumulator<T>* from, T* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(from[i]);
}

}  // namespace

Routing route(const at::Tensor& logits, std::int64_t k, bool renormalise) {
  const std::int64_t tokens = logits.size(0);
  const std::int64_t n = logits.size(1);
  const auto options = at::TensorOptions().dtype(accumulator_dtype(logits.scalar_type()));
  Routing routing{at::empty({tokens, n}, options), at::empty({tokens, k}, at::kLong), at::empty({tokens, k}, options)};
  for_dtype(logits.scalar_type(), [&]<class T>() {
    using A = Accumulator<T>;
    for (std::int64_t t = 0; t < tokens; ++t) {
      A* probabilities = elements<A>(routing.probabilities) + t * n;
      A* weights = elements<A>(routing.weights) + t * k;
      softmax<T>(elements<T>(logits) + t * n, probabilities, n);
      choose<A>(probabilities, n, k, elements<std::int64_t>(routing.experts) + t * k, weights);
      if (!renormalise) continue;
      A sum = 0;
      for (std::int64_t j = 0; j < k; ++j) sum += weights[j];
      for (std::int64_t j = 0; j < k; ++j) weights[j] /= sum;
    }
  });
  return routing;
}

// With w_j = p_j / s, s the sum over the choices: dp_j = (dw_j - sum over i of dw_i w_i) / s. Then the softmax:
// dlogit_e = p_e (dp_e - sum over i of dp_i p_i).
at::Tensor route_backward(const at::Tensor& dweights, const at::Tensor& added, const Routing& routing, bool renormalise,
                          at::ScalarType dtype) {
  const std::int64_t tokens = routing.probabilities.size(0);
  const std::int64_t n = routing.probabilities.size(1);
  const std::int64_t k = routing.weights.size(1);
  at::Tensor dlogits = at::empty({tokens, n}, at::TensorOptions().dtype(dtype));
  for_dtype(dtype, [&]<class T>() {
    using A = Accumulator<T>;
    std::vector<A> dp(static_cast<std::size_t>(n));
    for (std::int64_t t = 0; t < tokens; ++t) {
      const A* p = elements<A>(routing.probabilities) + t * n;
      const A* w = elements<A>(routing.weights) + t * k;
      const A* dw = elements<A>(dweights) + t * k;
      const std::int64_t* experts = elements<std::int64_t>(routing.experts) + t * k;
      for (std::int64_t e = 0; e < n; ++e) {
        dp[e] = added.defined() ? static_cast<A>(elements<double>(added)[e]) : A(0);
      }
      A chosen = 0;
      A mean = 0;
      for (std::int64_t j = 0; j < k; ++j) {
        chosen += p[experts[j]];
        mean += dw[j] * w[j];
      }
      for (std::int64_t j = 0; j < k; ++j) dp[experts[j]] += renormalise ? (dw[j] - mean) / chosen : dw[j];
      A sum = 0;
      for (std::int64_t e = 0; e < n; ++e) sum += dp[e] * p[e];
      T* out = elements<T>(dlogits) + t * n;
      for (std::int64_t e = 0; e < n; ++e) out[e] = static_cast<T>(p[e] * (dp[e] - sum));
    }
  });
  return dlogits;
}

void add_router_sums(const Routing& routing, const at::Tensor& sums) {
  const std::int64_t n = routing.probabilities.size(1);
  auto* counts = elements<double>(sums);
  double* probabilities = counts + n;
  const auto* experts = elements<std::int64_t>(routing.experts);
  for (std::int64_t i = 0; i < routing.experts.numel(); ++i) counts[experts[i]] += 1.0;
  for_dtype(routing.probabilities.scalar_type(), [&]<class A>() {
    const A* p = elements<A>(routing.probabilities);
    for (std::int64_t i = 0; i < routing.probabilities.numel(); ++i) probabilities[i % n] += static_cast<double>(p[i]);
  });
}

RowOrder sort_by_expert(const at::Tensor& experts, std::int64_t num_experts) {
  RowOrder order{experts.size(0), experts.size(1), {}, {}};
  order.counts.assign(static_cast<std::size_t>(num_experts), 0);
  order.row_of.resize(static_cast<std::size_t>(experts.numel()));
  const auto* expert = elements<std::int64_t>(experts);
  for (std::size_t i = 0; i < order.row_of.size(); ++i) ++order.counts[expert[i]];
  std::vector<std::int64_t> next(order.counts.size(), 0);
  for (std::size_t e = 1; e < next.size(); ++e) next[e] = next[e - 1] + order.counts[e - 1];
  for (std::size_t i = 0; i < order.row_of.size(); ++i) order.row_of[i] = next[expert[i]]++;
  return order;
}

at::Tensor gather_routed(const at::Tensor& x, const RowOrder& order) {
  const auto num_rows = static_cast<std::int64_t>(order.row_of.size());
  at::Tensor rows = at::empty({num_rows, x.size(1)}, x.options());
  const std::size_t row_bytes = x.size(1) * x.element_size();
  PPCTL_CHECK(x.is_contiguous(), "a kernel needs contiguous tensors");
  const auto* from = static_cast<const std::byte*>(x.data_ptr());
  auto* to = static_cast<std::byte*>(rows.data_ptr());
  for (std::int64_t i = 0; i < num_rows; ++i) {
    std::memcpy(to + order.row_of[i] * row_bytes, from + i / order.k * row_bytes, row_bytes);
  }
  return rows;
}

at::Tensor combine_routed(const at::Tensor& rows, const at::Tensor& weights, const RowOrder& order,
                          const at::Tensor& residual) {
  const std::int64_t n = rows.size(1);
  at::Tensor y = at::empty({order.num_tokens, n}, rows.options());
  for_dtype(rows.scalar_type(), [&]<class T>() {
    using A = Accumulator<T>;
    std::vector<A> sum(static_cast<std::size_t>(n));
    for (std::int64_t t = 0; t < order.num_tokens; ++t) {
      std::fill(sum.begin(), sum.end(), A(0));
      if (residual.defined()) to_accumulator<T>(elements<T>(residual) + t * n, sum.data(), n);
      for (std::int64_t i = t * order.k; i < (t + 1) * order.k; ++i) {
        add_scaled<T>(sum.data(), elements<A>(weights)[i], elements<T>(rows) + order.row_of[i] * n, n);
      }
      from_accumulator<T>(sum.data(), elements<T>(y) + t * n, n);
    }
  });
  return y;
}

CombineGrads combine_routed_backward(const at::Tensor& dy, const at::Tensor& rows, const at::Tensor& weights,
                                     const RowOrder& order) {
  const std::int64_t n = rows.size(1);
  CombineGrads grads{at::empty(rows.sizes(), rows.options()), at::empty(weights.sizes(), weights.options())};
  for_dtype(rows.scalar_type(), [&]<class T>() {
    using A = Accumulator<T>;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(order.row_of.size()); ++i) {
      const T* gradient = elements<T>(dy) + i / order.k * n;
      const std::int64_t row = order.row_of[i];
      elements<A>(grads.weights)[i] = dot<T>(gradient, elements<T>(rows) + row * n, n);
      scale_row<T>(elements<T>(grads.rows) + row * n, elements<A>(weights)[i], gradient, n);
    }
  });
  return grads;
}

void add_routed(const at::Tensor& dx, const at::Tensor& rows, const RowOrder& order) {
  const std::int64_t n = rows.size(1);
  for_dtype(rows.scalar_type(), [&]<class T>() {
    using A = Accumulator<T>;
    std::vector<A> sum(static_cast<std::size_t>(n));
    for (std::int64_t t = 0; t < order.num_tokens; ++t) {
      T* out = elements<T>(dx) + t * n;
      to_accumulator<T>(out, sum.data(), n);
      for (std::int64_t i = t * order.k; i < (t + 1) * order.k; ++i) {
        add_scaled<T>(sum.data(), A(1), elements<T>(rows) + order.row_of[i] * n, n);
      }
      from_accumulator<T>(sum.data(), out, n);
    }
  });
}

}  // namespace ppctl::kernels
