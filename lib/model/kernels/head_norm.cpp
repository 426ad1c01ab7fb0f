#include <cmath>
#include <vector>

#include "model/kernels/dispatch.hpp"
#include "model/kernels/rope.hpp"
#include "model/kernels/simd.hpp"

namespace ppctl::kernels {
namespace {

template <class T>
PPCTL_VECTORISED void norm_head_rows(const T* qkv, HeadLayout layout, std::int64_t tokens, const T* query_weight,
                                     const T* key_weight, T* out, Accumulator<T>* statistics, Accumulator<T> eps) {
  using A = Accumulator<T>;
  const std::int64_t n = layout.head_dim;
  const std::int64_t normed = layout.heads + layout.kv_heads;
  for (std::int64_t token = 0; token < tokens; ++token) {
    const T* in = qkv + token * layout.width();
    T* to = out + token * layout.width();
    for (std::int64_t head = 0; head < normed; ++head, in += n, to += n) {
      const T* weight = head < layout.heads ? query_weight : key_weight;
      A squares = 0;
#pragma omp simd reduction(+ : squares)
      for (std::int64_t i = 0; i < n; ++i) squares += static_cast<A>(in[i]) * static_cast<A>(in[i]);
      const A scale = A(1) / std::sqrt(squares / static_cast<A>(n) + eps);
      statistics[token * normed + head] = scale;
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) {
        const T normalised = static_cast<T>(static_cast<A>(in[i]) * scale);
        to[i] = static_cast<T>(static_cast<A>(normalised) * static_cast<A>(weight[i]));
      }
    }
    for (std::int64_t i = 0; i < layout.kv_heads * n; ++i) to[i] = in[i];
  }
}

template <class T>
PPCTL_VECTORISED void norm_head_backward_rows(T* dqkv, const T* qkv, const Accumulator<T>* statistics,
                                              HeadLayout layout, std::int64_t tokens, const T* query_weight,
                                              const T* key_weight, Accumulator<T>* query_sum, Accumulator<T>* key_sum) {
  using A = Accumulator<T>;
  const std::int64_t n = layout.head_dim;
  const std::int64_t normed = layout.heads + layout.kv_heads;
  for (std::int64_t token = 0; token < tokens; ++token) {
    for (std::int64_t head = 0; head < normed; ++head) {
      T* d = dqkv + token * layout.width() + head * n;
      const T* in = qkv + token * layout.width() + head * n;
      const T* weight = head < layout.heads ? query_weight : key_weight;
      A* sum = head < layout.heads ? query_sum : key_sum;
      const A scale = statistics[token * normed + head];
      A product = 0;
#pragma omp simd reduction(+ : product)
      for (std::int64_t i = 0; i < n; ++i) {
        product += static_cast<A>(d[i]) * static_cast<A>(weight[i]) * static_cast<A>(in[i]);
      }
      const A mean = product * scale / static_cast<A>(n);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) {
        const A u = static_cast<A>(in[i]) * scale;
        sum[i] += static_cast<A>(d[i]) * u;
        d[i] = static_cast<T>(scale * (static_cast<A>(d[i]) * static_cast<A>(weight[i]) - u * mean));
      }
    }
  }
}

template <class T>
void accumulate(const at::Tensor& gradient, const std::vector<Accumulator<T>>& sum) {
  if (!gradient.defined()) return;
  auto* out = elements<Accumulator<T>>(gradient);
  for (std::size_t i = 0; i < sum.size(); ++i) out[i] += sum[i];
}

}  // namespace

at::Tensor norm_heads(const at::Tensor& qkv, const HeadLayout& layout, const at::Tensor& query_weight,
                      const at::Tensor& key_weight, double eps, at::Tensor& statistics) {
  at::Tensor out = at::empty(qkv.sizes(), qkv.options());
  const std::int64_t tokens = qkv.numel() / layout.width();
  statistics = at::empty({tokens, layout.heads + layout.kv_heads},
                         at::TensorOptions().dtype(accumulator_dtype(qkv.scalar_type())));
  for_dtype(qkv.scalar_type(), [&]<class T>() {
    using A = Accumulator<T>;
    norm_head_rows<T>(elements<T>(qkv), layout, tokens, elements<T>(query_weight), elements<T>(key_weight),
                      elements<T>(out), elements<A>(statistics), static_cast<A>(eps));
  });
  return out;
}

void norm_heads_backward(const at::Tensor& dqkv, const at::Tensor& qkv, const at::Tensor& statistics,
                         const HeadLayout& layout, const at::Tensor& query_weight, const at::Tensor& key_weight,
                         const at::Tensor& query_weight_grad, const at::Tensor& key_weight_grad) {
  const std::int64_t tokens = qkv.numel() / layout.width();
  for_dtype(qkv.scalar_type(), [&]<class T>() {
    using A = Accumulator<T>;
    std::vector<A> query_sum(layout.head_dim);
    std::vector<A> key_sum(layout.head_dim);
    norm_head_backward_rows<T>(elements<T>(dqkv), elements<T>(qkv), elements<A>(statistics), layout, tokens,
                               elements<T>(query_weight), elements<T>(key_weight), query_sum.data(), key_sum.data());
    accumulate<T>(query_weight_grad, query_sum);
    accumulate<T>(key_weight_grad, key_sum);
  });
}

}  // namespace ppctl::kernels
