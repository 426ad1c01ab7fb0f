#include "model/kernels/rope.hpp"

#include "model/kernels/dispatch.hpp"
#include "model/kernels/simd.hpp"

namespace ppctl::kernels {
namespace {

struct Tokens {
  std::int64_t count;
  std::int64_t sequence;
  const std::int64_t* positions;  ///< null: the place in the sequence
};

template <class T>
PPCTL_VECTORISED void rotate_tokens(T* qkv, HeadLayout layout, const float* cos, const float* sin, Tokens tokens,
                                    float sine_sign) {
  using A = Accumulator<T>;
  const std::int64_t half = layout.head_dim / 2;
  const std::int64_t rotated = layout.heads + layout.kv_heads;
  for (std::int64_t token = 0; token < tokens.count; ++token) {
    const std::int64_t position = tokens.positions == nullptr ? token % tokens.sequence : tokens.positions[token];
    const float* c = cos + position * half;
    const float* s = sin + position * half;
    for (std::int64_t head = 0; head < rotated; ++head) {
      T* x = qkv + token * layout.width() + head * layout.head_dim;
#pragma omp simd
      for (std::int64_t i = 0; i < half; ++i) {
        const A a = static_cast<A>(x[i]);
        const A b = static_cast<A>(x[i + half]);
        const A sine = static_cast<A>(s[i] * sine_sign);
        x[i] = static_cast<T>(a * static_cast<A>(c[i]) - b * sine);
        x[i + half] = static_cast<T>(b * static_cast<A>(c[i]) + a * sine);
      }
    }
  }
}

void rotate_by(const at::Tensor& qkv, const HeadLayout& layout, const at::Tensor& cos, const at::Tensor& sin,
               const at::Tensor& positions, float sine_sign) {
  PPCTL_CHECK_EQ(qkv.size(-1), layout.width());
  const std::int64_t tokens = qkv.numel() / layout.width();
  if (positions.defined()) PPCTL_CHECK_EQ(positions.numel(), tokens);
  const Tokens range{tokens, qkv.size(-2), positions.defined() ? elements<std::int64_t>(positions) : nullptr};
  for_dtype(qkv.scalar_type(), [&]<class T>() {
    rotate_tokens<T>(elements<T>(qkv), layout, elements<float>(cos), elements<float>(sin), range, sine_sign);
  });
}

}  // namespace

void rotate(const at::Tensor& qkv, const HeadLayout& layout, const at::Tensor& cos, const at::Tensor& sin,
            const at::Tensor& positions) {
  rotate_by(qkv, layout, cos, sin, positions, 1.0F);
}

void rotate_backward(const at::Tensor& dqkv, const HeadLayout& layout, const at::Tensor& cos, const at::Tensor& sin,
                     const at::Tensor& positions) {
  rotate_by(dqkv, layout, cos, sin, positions, -1.0F);
}

}  // namespace ppctl::kernels
