#include "model/kernels/activation.hpp"

#include <cmath>
#include <cstdint>

#include "model/kernels/dispatch.hpp"
#include "model/kernels/simd.hpp"

namespace ppctl::kernels {
namespace {

/// f(x) and f'(x).
template <class A>
struct Point {
  A value;
  A slope;
};

/// x * sigmoid(u) with u = a function of x: what silu, quick_gelu and the tanh form of gelu (0.5 (1 + tanh u) =
/// sigmoid(2u)) have in common.
template <class A>
PPCTL_INLINE Point<A> times_sigmoid(A x, A u, A du) {
  const A s = sigmoid(u);
  return {x * s, s + x * s * (A(1) - s) * du};
}

template <Activation kind, class A>
PPCTL_INLINE Point<A> evaluate(A x) {
  if constexpr (kind == Activation::kSilu) {
    return times_sigmoid<A>(x, x, A(1));
  } else if constexpr (kind == Activation::kQuickGelu) {
    return times_sigmoid<A>(x, A(1.702) * x, A(1.702));
  } else if constexpr (kind == Activation::kGeluTanh) {
    constexpr A kTwiceRootTwoOverPi = A(1.5957691216057308);
    constexpr A kCubic = A(0.044715);
    return times_sigmoid<A>(x, kTwiceRootTwoOverPi * (x + kCubic * x * x * x),
                            kTwiceRootTwoOverPi * (A(1) + 3 * kCubic * x * x));
  } else if constexpr (kind == Activation::kGeluErf) {
    constexpr A kRootHalf = A(0.70710678118654752);
    constexpr A kInverseRootTwoPi = A(0.39894228040143268);
    const A phi = A(0.5) * (A(1) + std::erf(x * kRootHalf));
    return {x * phi, phi + x * kInverseRootTwoPi * std::exp(A(-0.5) * x * x)};
  } else {
    return {x > A(0) ? x : A(0), x > A(0) ? A(1) : A(0)};
  }
}

template <class T, Activation kind>
PPCTL_VECTORISED void activate_all(const T* x, T* y, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(evaluate<kind>(static_cast<Accumulator<T>>(x[i])).value);
}

template <class T, Activation kind>
PPCTL_VECTORISED void activate_backward_all(const T* dy, const T* x, T* dx, T* y, std::int64_t n) {
  using A = Accumulator<T>;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const Point<A> at = evaluate<kind>(static_cast<A>(x[i]));
    dx[i] = static_cast<T>(static_cast<A>(dy[i]) * at.slope);
    y[i] = static_cast<T>(at.value);
  }
}

template <class T, Activation kind>
PPCTL_VECTORISED void gate_rows(const T* gate_up, T* y, std::int64_t rows, std::int64_t n) {
  using A = Accumulator<T>;
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* g = gate_up + row * 2 * n;
    const T* up = g + n;
    T* out = y + row * n;
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      out[i] = static_cast<T>(evaluate<kind>(static_cast<A>(g[i])).value * static_cast<A>(up[i]));
    }
  }
}

template <class T, Activation kind>
PPCTL_VECTORISED void gate_backward_rows(const T* dy, const T* gate_up, T* dgate_up, T* y, std::int64_t rows,
                                         std::int64_t n) {
  using A = Accumulator<T>;
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* d = dy + row * n;
    const T* g = gate_up + row * 2 * n;
    const T* up = g + n;
    T* dg = dgate_up + row * 2 * n;
    T* dup = dg + n;
    T* out = y + row * n;
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      const Point<A> at = evaluate<kind>(static_cast<A>(g[i]));
      dg[i] = static_cast<T>(static_cast<A>(d[i]) * static_cast<A>(up[i]) * at.slope);
      dup[i] = static_cast<T>(static_cast<A>(d[i]) * at.value);
      out[i] = static_cast<T>(at.value * static_cast<A>(up[i]));
    }
  }
}

/// Calls `function.template operator()<T, kind>()`.
template <class Function>
void for_activation(at::ScalarType dtype, Activation activation, Function&& function) {
  for_dtype(dtype, [&]<class T>() {
    switch (activation) {
      case Activation::kSilu:
        return function.template operator()<T, Activation::kSilu>();
      case Activation::kGeluTanh:
        return function.template operator()<T, Activation::kGeluTanh>();
      case Activation::kGeluErf:
        return function.template operator()<T, Activation::kGeluErf>();
      case Activation::kQuickGelu:
        return function.template operator()<T, Activation::kQuickGelu>();
      case Activation::kRelu:
        return function.template operator()<T, Activation::kRelu>();
    }
  });
}

std::vector<std::int64_t> half_width(const at::Tensor& gate_up) {
  std::vector<std::int64_t> sizes = gate_up.sizes().vec();
  sizes.back() /= 2;
  return sizes;
}

}  // namespace

at::Tensor activate(const at::Tensor& x, Activation activation) {
  at::Tensor y = at::empty(x.sizes(), x.options());
  for_activation(x.scalar_type(), activation,
                 [&]<class T, Activation kind>() { activate_all<T, kind>(elements<T>(x), elements<T>(y), x.numel()); });
  return y;
}

at::Tensor activate_backward(const at::Tensor& dy, const at::Tensor& x, Activation activation, const at::Tensor& y) {
  at::Tensor dx = at::empty(x.sizes(), x.options());
  for_activation(x.scalar_type(), activation, [&]<class T, Activation kind>() {
    activate_backward_all<T, kind>(elements<T>(dy), elements<T>(x), elements<T>(dx), elements<T>(y), x.numel());
  });
  return dx;
}

at::Tensor gate(const at::Tensor& gate_up, Activation activation) {
  at::Tensor y = at::empty(half_width(gate_up), gate_up.options());
  const std::int64_t n = y.size(-1);
  for_activation(y.scalar_type(), activation, [&]<class T, Activation kind>() {
    gate_rows<T, kind>(elements<T>(gate_up), elements<T>(y), y.numel() / n, n);
  });
  return y;
}

at::Tensor gate_backward(const at::Tensor& dy, const at::Tensor& gate_up, Activation activation, const at::Tensor& y) {
  at::Tensor dgate_up = at::empty(gate_up.sizes(), gate_up.options());
  const std::int64_t n = gate_up.size(-1) / 2;
  for_activation(dy.scalar_type(), activation, [&]<class T, Activation kind>() {
    gate_backward_rows<T, kind>(elements<T>(dy), elements<T>(gate_up), elements<T>(dgate_up), elements<T>(y),
                                dy.numel() / n, n);
  });
  return dgate_up;
}

}  // namespace ppctl::kernels
