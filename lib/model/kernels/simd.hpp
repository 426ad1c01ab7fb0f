#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

// Compiles a function once for each of three instruction sets and picks the best when the program is loaded, so that a
// binary runs everywhere and is fast where it can be. Sanitizers cannot run code as early as the choice is made.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define PPCTL_VECTORISED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define PPCTL_VECTORISED
#endif
#define PPCTL_INLINE [[gnu::always_inline]] inline

namespace ppctl {

/// What a kernel computes in: float32 for float32 and bfloat16, double for double.
template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// e^x within 2 units in the last place, as a sequence of operations that compilers vectorise (a call of std::exp is
/// not). Below -87.3 it is 0, above 88.3 it stays where it is there, and NaN stays NaN.
PPCTL_INLINE float vector_exp(float x) {
  constexpr float kRoundToInteger = 12582912.0F;  // 1.5 * 2^23: adding it leaves the rounded integer in the low bits
  const float clamped = x < -87.3F ? -87.3F : (x > 88.3F ? 88.3F : x);
  const float shifted = clamped * 1.44269504F + kRoundToInteger;
  const float k = shifted - kRoundToInteger;
  float r = clamped - k * 0.693359375F;
  r -= k * -2.12194440e-4F;
  // Minimax polynomial of e^r on [-ln 2 / 2, ln 2 / 2] (Cephes, expf).
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const std::uint32_t bits = (std::bit_cast<std::uint32_t>(shifted) << 23) + (127U << 23);
  const float result = p * std::bit_cast<float>(bits);
  return x < -87.3F ? 0.0F : result;
}
inline double vector_exp(double x) { return std::exp(x); }

template <class A>
PPCTL_INLINE A sigmoid(A x) {
  return A(1) / (A(1) + vector_exp(-x));
}

}  // namespace ppctl
