#include "model/kernels/norm.hpp"

#include <cmath>
#include <cstdint>
#include <vector>

#include "model/kernels/dispatch.hpp"
#include "model/kernels/simd.hpp"

namespace ppctl::kernels {
namespace {

/// Row count and length of a tensor that is normalised over its last dim.
struct Rows {
  std::int64_t count;
  std::int64_t length;
};

Rows rows_of(const at::Tensor& x) { return {x.numel() / x.size(-1), x.size(-1)}; }

template <class T>
PPCTL_INLINE void add_residual(const T* x, const T* residual, T* sum, std::int64_t n) {
  using A = Accumulator<T>;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) sum[i] = static_cast<T>(static_cast<A>(x[i]) + static_cast<A>(residual[i]));
}

template <class T>
PPCTL_VECTORISED void rms_norm_rows(const T* x, const T* residual, const T* weight, T* y, T* sum,
                                    Accumulator<T>* inverse_rms, Rows rows, Accumulator<T> eps) {
  using A = Accumulator<T>;
  const std::int64_t n = rows.length;
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const T* in = x + row * n;
    if (residual != nullptr) {
      add_residual(in, residual + row * n, sum + row * n, n);
      in = sum + row * n;
    }
    A squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t i = 0; i < n; ++i) squares += static_cast<A>(in[i]) * static_cast<A>(in[i]);
    const A scale = A(1) / std::sqrt(squares / static_cast<A>(n) + eps);
    inverse_rms[row] = scale;
    T* out = y + row * n;
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      const T normalised = static_cast<T>(static_cast<A>(in[i]) * scale);
      out[i] = static_cast<T>(static_cast<A>(normalised) * static_cast<A>(weight[i]));
    }
  }
}

// With u = x * r, r = 1 / rms, g = dy * w:  dx = r * (g - u * mean(g * u)),  dw = sum over rows of dy * u.
template <class T>
PPCTL_VECTORISED void rms_norm_backward_rows(const T* dy, const T* residual_grad, const T* x,
                                             const Accumulator<T>* inverse_rms, const T* weight, T* dx,
                                             Accumulator<T>* weight_sum, Rows rows) {
  using A = Accumulator<T>;
  const std::int64_t n = rows.length;
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const T* d = dy + row * n;
    const T* in = x + row * n;
    T* out = dx + row * n;
    const A scale = inverse_rms[row];
    A product = 0;
#pragma omp simd reduction(+ : product)
    for (std::int64_t i = 0; i < n; ++i)
      product += static_cast<A>(d[i]) * static_cast<A>(weight[i]) * static_cast<A>(in[i]);
    const A mean = product * scale / static_cast<A>(n);
    if (weight_sum != nullptr) {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) weight_sum[i] += static_cast<A>(d[i]) * (static_cast<A>(in[i]) * scale);
    }
    if (residual_grad != nullptr) {
      const T* other = residual_grad + row * n;
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) {
        const A g = static_cast<A>(d[i]) * static_cast<A>(weight[i]);
        out[i] = static_cast<T>(scale * (g - static_cast<A>(in[i]) * scale * mean) + static_cast<A>(other[i]));
      }
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) {
        const A g = static_cast<A>(d[i]) * static_cast<A>(weight[i]);
        out[i] = static_cast<T>(scale * (g - static_cast<A>(in[i]) * scale * mean));
      }
    }
  }
}

template <class T>
PPCTL_VECTORISED void layer_norm_rows(const T* x, const T* residual, const T* weight, const T* bias, T* y, T* sum,
                                      Accumulator<T>* statistics, Rows rows, Accumulator<T> eps) {
  using A = Accumulator<T>;
  const std::int64_t n = rows.length;
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const T* in = x + row * n;
    if (residual != nullptr) {
      add_residual(in, residual + row * n, sum + row * n, n);
      in = sum + row * n;
    }
    A total = 0;
#pragma omp simd reduction(+ : total)
    for (std::int64_t i = 0; i < n; ++i) total += static_cast<A>(in[i]);
    const A mean = total / static_cast<A>(n);
    A squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t i = 0; i < n; ++i) squares += (static_cast<A>(in[i]) - mean) * (static_cast<A>(in[i]) - mean);
    const A scale = A(1) / std::sqrt(squares / static_cast<A>(n) + eps);
    statistics[2 * row] = mean;
    statistics[2 * row + 1] = scale;
    T* out = y + row * n;
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      out[i] =
          static_cast<T>((static_cast<A>(in[i]) - mean) * scale * static_cast<A>(weight[i]) + static_cast<A>(bias[i]));
    }
  }
}

// With u = (x - mean) * r and g = dy * w:  dx = r * (g - mean(g) - u * mean(g * u)),  dw = sum of dy * u,  db = sum of
// dy.
template <class T>
PPCTL_VECTORISED void layer_norm_backward_rows(const T* dy, const T* residual_grad, const T* x,
                                               const Accumulator<T>* statistics, const T* weight, T* dx,
                                               Accumulator<T>* weight_sum, Accumulator<T>* bias_sum, Rows rows) {
  using A = Accumulator<T>;
  const std::int64_t n = rows.length;
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const T* d = dy + row * n;
    const T* in = x + row * n;
    T* out = dx + row * n;
    const A mean = statistics[2 * row];
    const A scale = statistics[2 * row + 1];
    A plain = 0;
    A product = 0;
#pragma omp simd reduction(+ : plain, product)
    for (std::int64_t i = 0; i < n; ++i) {
      const A g = static_cast<A>(d[i]) * static_cast<A>(weight[i]);
      plain += g;
      product += g * ((static_cast<A>(in[i]) - mean) * scale);
    }
    plain /= static_cast<A>(n);
    product /= static_cast<A>(n);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      const A u = (static_cast<A>(in[i]) - mean) * scale;
      weight_sum[i] += static_cast<A>(d[i]) * u;
      bias_sum[i] += static_cast<A>(d[i]);
    }
    const T* other = residual_grad == nullptr ? nullptr : residual_grad + row * n;
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      const A u = (static_cast<A>(in[i]) - mean) * scale;
      const A g = static_cast<A>(d[i]) * static_cast<A>(weight[i]);
      out[i] = static_cast<T>(scale * (g - plain - u * product) + (other == nullptr ? A(0) : static_cast<A>(other[i])));
    }
  }
}

template <class T>
T* optional_elements(const at::Tensor& tensor) {
  return tensor.defined() ? elements<T>(tensor) : nullptr;
}

template <class T>
void accumulate(const at::Tensor& gradient, const std::vector<Accumulator<T>>& sum) {
  if (!gradient.defined()) return;
  auto* out = elements<Accumulator<T>>(gradient);
  for (std::size_t i = 0; i < sum.size(); ++i) out[i] += sum[i];
}

NormOutput allocate_output(const at::Tensor& x, const at::Tensor& residual, std::int64_t statistics_per_row) {
  const at::TensorOptions options = at::TensorOptions().dtype(accumulator_dtype(x.scalar_type()));
  return {at::empty(x.sizes(), x.options()), residual.defined() ? at::empty(x.sizes(), x.options()) : x,
          at::empty({rows_of(x).count * statistics_per_row}, options)};
}

}  // namespace

NormOutput rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps) {
  NormOutput out = allocate_output(x, residual, 1);
  for_dtype(x.scalar_type(), [&]<class T>() {
    using A = Accumulator<T>;
    rms_norm_rows<T>(elements<T>(x), optional_elements<T>(residual), elements<T>(weight), elements<T>(out.y),
                     elements<T>(out.sum), elements<A>(out.statistics), rows_of(x), static_cast<A>(eps));
  });
  return out;
}

NormOutput layer_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, const at::Tensor& bias,
                      double eps) {
  NormOutput out = allocate_output(x, residual, 2);
  for_dtype(x.scalar_type(), [&]<class T>() {
    using A = Accumulator<T>;
    layer_norm_rows<T>(elements<T>(x), optional_elements<T>(residual), elements<T>(weight), elements<T>(bias),
                       elements<T>(out.y), elements<T>(out.sum), elements<A>(out.statistics), rows_of(x),
                       static_cast<A>(eps));
  });
  return out;
}

at::Tensor rms_norm_backward(const at::Tensor& dy, const at::Tensor& residual_grad, const at::Tensor& x,
                             const RowStatistics& statistics, const at::Tensor& weight, const at::Tensor& weight_grad) {
  at::Tensor dx = at::empty(x.sizes(), x.options());
  for_dtype(x.scalar_type(), [&]<class T>() {
    using A = Accumulator<T>;
    std::vector<A> weight_sum(weight_grad.defined() ? x.size(-1) : 0);
    rms_norm_backward_rows<T>(elements<T>(dy), optional_elements<T>(residual_grad), elements<T>(x),
                              elements<A>(statistics), elements<T>(weight), elements<T>(dx),
                              weight_sum.empty() ? nullptr : weight_sum.data(), rows_of(x));
    accumulate<T>(weight_grad, weight_sum);
  });
  return dx;
}

at::Tensor layer_norm_backward(const at::Tensor& dy, const at::Tensor& residual_grad, const at::Tensor& x,
                               const RowStatistics& statistics, const at::Tensor& weight, const at::Tensor& weight_grad,
                               const at::Tensor& bias_grad) {
  at::Tensor dx = at::empty(x.sizes(), x.options());
  for_dtype(x.scalar_type(), [&]<class T>() {
    using A = Accumulator<T>;
    std::vector<A> weight_sum(x.size(-1));
    std::vector<A> bias_sum(x.size(-1));
    layer_norm_backward_rows<T>(elements<T>(dy), optional_elements<T>(residual_grad), elements<T>(x),
                                elements<A>(statistics), elements<T>(weight), elements<T>(dx), weight_sum.data(),
                                bias_sum.data(), rows_of(x));
    accumulate<T>(weight_grad, weight_sum);
    accumulate<T>(bias_grad, bias_sum);
  });
  return dx;
}

}  // namespace ppctl::kernels
