#pragma once

#include <cstdint>
#include <cstring>

#include "model/kernels/simd.hpp"

namespace ppctl::kernels {

/// Columns of the matrices below come in multiples of this.
constexpr std::int64_t kTileColumns = 16;

constexpr std::int64_t padded_columns(std::int64_t n) { return (n + kTileColumns - 1) / kTileColumns * kTileColumns; }

/// The left operand: element (i, k) is at data[i * row_stride + k * column_stride].
template <class A>
struct LeftMatrix {
  const A* data;
  std::int64_t row_stride;
  std::int64_t column_stride;
};

namespace detail {

template <class A>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float type __attribute__((vector_size(64)));
};
template <>
struct VectorOf<double> {
  typedef double type __attribute__((vector_size(64)));
};

/// `num_rows` x (`num_vectors` vectors) of C, held in registers over all of k.
template <class A, int num_rows, int num_vectors>
PPCTL_INLINE void tile(const LeftMatrix<A>& a, const A* b, std::int64_t ldb, A* c, std::int64_t ldc, std::int64_t k,
                       bool add) {
  using Vector = typename VectorOf<A>::type;
  constexpr std::int64_t kLanes = sizeof(Vector) / sizeof(A);
  Vector sums[num_rows][num_vectors];
  for (int i = 0; i < num_rows; ++i) {
    for (int j = 0; j < num_vectors; ++j) {
      if (add) {
        std::memcpy(&sums[i][j], c + i * ldc + j * kLanes, sizeof(Vector));
      } else {
        sums[i][j] = Vector{};
      }
    }
  }
  for (std::int64_t p = 0; p < k; ++p) {
    Vector right[num_vectors];
    for (int j = 0; j < num_vectors; ++j) std::memcpy(&right[j], b + p * ldb + j * kLanes, sizeof(Vector));
    for (int i = 0; i < num_rows; ++i) {
      const A left = a.data[i * a.row_stride + p * a.column_stride];
      for (int j = 0; j < num_vectors; ++j) sums[i][j] += left * right[j];
    }
  }
  for (int i = 0; i < num_rows; ++i) {
    for (int j = 0; j < num_vectors; ++j) std::memcpy(c + i * ldc + j * kLanes, &sums[i][j], sizeof(Vector));
  }
}

template <class A, int num_vectors>
PPCTL_INLINE void column_strip(std::int64_t m, std::int64_t k, LeftMatrix<A> a, const A* b, std::int64_t ldb, A* c,
                               std::int64_t ldc, bool add) {
  while (m >= 4) {
    tile<A, 4, num_vectors>(a, b, ldb, c, ldc, k, add);
    a.data += 4 * a.row_stride;
    c += 4 * ldc;
    m -= 4;
  }
  for (; m > 0; --m) {
    tile<A, 1, num_vectors>(a, b, ldb, c, ldc, k, add);
    a.data += a.row_stride;
    c += ldc;
  }
}

}  // namespace detail

/// C [m, n] = A [m, k] B [k, n], or += with `add`; B and C row-major with leading dims ldb and ldc. For the small
/// products inside attention, where a library call costs more than the arithmetic. REQUIRES: n is a multiple of
/// kTileColumns.
template <class A>
PPCTL_INLINE void tile_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const LeftMatrix<A>& a, const A* b,
                            std::int64_t ldb, A* c, std::int64_t ldc, bool add) {
  constexpr int kNarrow = static_cast<int>(kTileColumns * sizeof(A) / 64);
  std::int64_t column = 0;
  for (; column + 2 * kTileColumns <= n; column += 2 * kTileColumns) {
    detail::column_strip<A, 2 * kNarrow>(m, k, a, b + column, ldb, c + column, ldc, add);
  }
  if (column < n) detail::column_strip<A, kNarrow>(m, k, a, b + column, ldb, c + column, ldc, add);
}

}  // namespace ppctl::kernels
