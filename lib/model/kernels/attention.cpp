#include "model/kernels/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <new>
#include <vector>

#include "model/kernels/dispatch.hpp"
#include "model/kernels/tile_gemm.hpp"

namespace ppctl::kernels {
namespace {

/// Query rows whose scores are in memory at once.
constexpr std::int64_t kRowBlock = 32;

/// Working memory of one call: aligned matrices carved out of one allocation.
template <class A>
class Scratch {
 public:
  explicit Scratch(std::int64_t count)
      : memory_(static_cast<A*>(::operator new(count * sizeof(A), std::align_val_t{64}))), left_(count) {}
  A* take(std::int64_t count) {
    count = padded_columns(count);
    PPCTL_CHECK(count <= left_, "attention scratch: {} of {} elements", count, left_);
    A* result = memory_.get() + used_;
    used_ += count;
    left_ -= count;
    return result;
  }

 private:
  struct Free {
    void operator()(A* memory) const { ::operator delete(memory, std::align_val_t{64}); }
  };
  std::unique_ptr<A, Free> memory_;
  std::int64_t used_ = 0;
  std::int64_t left_;
};

/// Sizes of one call. Padded sizes are multiples of kTileColumns.
struct Shape {
  std::int64_t batch, sequence, padded_sequence, padded_dim;
  HeadLayout layout;

  Shape(const at::Tensor& qkv, const HeadLayout& heads)
      : batch(qkv.size(0)),
        sequence(qkv.size(1)),
        padded_sequence(padded_columns(sequence)),
        padded_dim(padded_columns(heads.head_dim)),
        layout(heads) {}
  std::int64_t group() const { return layout.heads / layout.kv_heads; }
  std::int64_t query_column(std::int64_t head) const { return head * layout.head_dim; }
  std::int64_t key_column(std::int64_t kv) const { return (layout.heads + kv) * layout.head_dim; }
  std::int64_t value_column(std::int64_t kv) const { return (layout.heads + layout.kv_heads + kv) * layout.head_dim; }
};

/// A part of a head: rows first .. first + count - 1 of one sample.
struct RowRange {
  std::int64_t first, count;
};

/// Copies rows of a head into [count, padded_dim], the padding zero.
template <class T>
PPCTL_INLINE void pack_rows(const T* head, std::int64_t stride, RowRange rows, std::int64_t dim,
                            std::int64_t padded_dim, Accumulator<T> factor, Accumulator<T>* out) {
  using A = Accumulator<T>;
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const T* from = head + (rows.first + row) * stride;
    A* to = out + row * padded_dim;
#pragma omp simd
    for (std::int64_t i = 0; i < dim; ++i) to[i] = static_cast<A>(from[i]) * factor;
    for (std::int64_t i = dim; i < padded_dim; ++i) to[i] = A(0);
  }
}

/// Copies all rows of a head into [dim, padded_sequence]: transposed, the padding zero.
template <class T>
PPCTL_INLINE void pack_transposed(const T* head, std::int64_t stride, const Shape& shape, Accumulator<T>* out) {
  using A = Accumulator<T>;
  for (std::int64_t i = 0; i < shape.layout.head_dim; ++i) {
    A* to = out + i * shape.padded_sequence;
    for (std::int64_t row = 0; row < shape.sequence; ++row) to[row] = static_cast<A>(head[row * stride + i]);
    for (std::int64_t row = shape.sequence; row < shape.padded_sequence; ++row) to[row] = A(0);
  }
}

template <class T>
PPCTL_INLINE void unpack_rows(const Accumulator<T>* from, std::int64_t padded_dim, RowRange rows, std::int64_t dim,
                              T* head, std::int64_t stride) {
  for (std::int64_t row = 0; row < rows.count; ++row) {
    T* to = head + (rows.first + row) * stride;
#pragma omp simd
    for (std::int64_t i = 0; i < dim; ++i) to[i] = static_cast<T>(from[row * padded_dim + i]);
  }
}

/// Takes the columns from `valid` on out of a softmax. Rows are worked on up to their padded end, so that no loop has a
/// remainder that is not vectorised.
template <class A>
PPCTL_INLINE void mask_columns(A* scores, std::int64_t valid, std::int64_t columns) {
  for (std::int64_t j = valid; j < columns; ++j) scores[j] = -std::numeric_limits<A>::infinity();
}

/// Scores to unnormalised probabilities, in place; returns their sum. `columns` is a multiple of kTileColumns.
template <class A>
PPCTL_INLINE A exponentiate(A* scores, std::int64_t columns, A& largest) {
  A top = scores[0];
#pragma omp simd reduction(max : top)
  for (std::int64_t j = 0; j < columns; ++j) top = scores[j] > top ? scores[j] : top;
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < columns; ++j) {
    scores[j] = vector_exp(scores[j] - top);
    sum += scores[j];
  }
  largest = top;
  return sum;
}

/// The dropout factors of one row of probabilities. Rows start at multiples of padded_sequence, so that each row's
/// numbers start a block.
void row_factors(const Dropout& dropout, const Shape& shape, std::int64_t sample, std::int64_t head, std::int64_t row,
                 std::int64_t n, float* out) {
  const std::int64_t first = (head * shape.sequence + row) * shape.padded_sequence;
  dropout_factors(dropout, dropout.first_sample + sample, first, n, out);
}

/// One forward call: its inputs, outputs and working memory.
template <class T>
struct ForwardCall {
  using A = Accumulator<T>;
  const Shape& shape;
  const AttentionOptions& options;
  const T* qkv;
  T* out;
  A* log_sum_exp;
  A *keys, *values, *queries, *scores, *rows;
  float* factors;
};

template <class T>
PPCTL_INLINE void forward_block(const ForwardCall<T>& call, std::int64_t sample, std::int64_t head, RowRange rows) {
  using A = Accumulator<T>;
  const Shape& shape = call.shape;
  const std::int64_t dim = shape.layout.head_dim;
  const std::int64_t width = shape.layout.width();
  const std::int64_t keys = call.options.causal ? rows.first + rows.count : shape.sequence;
  const std::int64_t columns = padded_columns(keys);
  const T* sample_qkv = call.qkv + sample * shape.sequence * width;
  pack_rows<T>(sample_qkv + shape.query_column(head), width, rows, dim, dim, static_cast<A>(call.options.scale),
               call.queries);
  tile_gemm<A>(rows.count, columns, dim, {call.queries, dim, 1}, call.keys, shape.padded_sequence, call.scores, columns,
               false);
  A inverse_sums[kRowBlock];
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const std::int64_t query = rows.first + row;
    A* scores = call.scores + row * columns;
    mask_columns(scores, call.options.causal ? query + 1 : keys, columns);
    A largest = 0;
    const A sum = exponentiate(scores, columns, largest);
    inverse_sums[row] = A(1) / sum;
    call.log_sum_exp[(sample * shape.layout.heads + head) * shape.sequence + query] = largest + std::log(sum);
    if (call.options.dropout.active()) {
      row_factors(call.options.dropout, shape, sample, head, query, keys, call.factors);
      for (std::int64_t j = 0; j < keys; ++j) scores[j] *= static_cast<A>(call.factors[j]);
    }
  }
  tile_gemm<A>(rows.count, shape.padded_dim, keys, {call.scores, columns, 1}, call.values, shape.padded_dim, call.rows,
               shape.padded_dim, false);
  for (std::int64_t row = 0; row < rows.count; ++row) {
    A* values = call.rows + row * shape.padded_dim;
#pragma omp simd
    for (std::int64_t i = 0; i < dim; ++i) values[i] *= inverse_sums[row];
  }
  const std::int64_t out_width = shape.layout.heads * dim;
  unpack_rows<T>(call.rows, shape.padded_dim, rows, dim, call.out + sample * shape.sequence * out_width + head * dim,
                 out_width);
}

template <class T>
PPCTL_VECTORISED void forward_all(const ForwardCall<T>& call) {
  using A = Accumulator<T>;
  const Shape& shape = call.shape;
  const std::int64_t width = shape.layout.width();
  for (std::int64_t sample = 0; sample < shape.batch; ++sample) {
    const T* sample_qkv = call.qkv + sample * shape.sequence * width;
    for (std::int64_t kv = 0; kv < shape.layout.kv_heads; ++kv) {
      pack_transposed<T>(sample_qkv + shape.key_column(kv), width, shape, call.keys);
      pack_rows<T>(sample_qkv + shape.value_column(kv), width, {0, shape.sequence}, shape.layout.head_dim,
                   shape.padded_dim, A(1), call.values);
      for (std::int64_t head = kv * shape.group(); head < (kv + 1) * shape.group(); ++head) {
        for (std::int64_t first = 0; first < shape.sequence; first += kRowBlock) {
          forward_block<T>(call, sample, head, {first, std::min(kRowBlock, shape.sequence - first)});
        }
      }
    }
  }
}

/// One backward call. `keys`, `values` and their transposes belong to one key/value head, the other buffers to one
/// block.
template <class T>
struct BackwardCall {
  using A = Accumulator<T>;
  const Shape& shape;
  const AttentionOptions& options;
  const T *dout, *qkv, *out;
  const A* log_sum_exp;
  T* dqkv;
  A *keys, *keys_transposed, *values_transposed, *dkeys, *dvalues;
  A *queries, *douts, *scores, *dscores, *rows;
  float* factors;
};

// P = exp(scale q k^T - lse); with dropout M: dV += (P M)^T dO, dP = (dO V^T) M; dS = P (dP - rowsum(dO O)) scale;
// dQ = dS K, dK += dS^T Q.
template <class T>
PPCTL_INLINE void backward_block(const BackwardCall<T>& call, std::int64_t sample, std::int64_t head, RowRange rows) {
  using A = Accumulator<T>;
  const Shape& shape = call.shape;
  const std::int64_t dim = shape.layout.head_dim;
  const std::int64_t padded_dim = shape.padded_dim;
  const std::int64_t width = shape.layout.width();
  const std::int64_t out_width = shape.layout.heads * dim;
  const std::int64_t keys = call.options.causal ? rows.first + rows.count : shape.sequence;
  const std::int64_t columns = padded_columns(keys);
  const A scale = static_cast<A>(call.options.scale);
  const T* out_head = call.out + sample * shape.sequence * out_width + head * dim;
  const T* dout_head = call.dout + sample * shape.sequence * out_width + head * dim;
  const std::int64_t query_offset = sample * shape.sequence * width + shape.query_column(head);
  pack_rows<T>(call.qkv + query_offset, width, rows, dim, padded_dim, scale, call.queries);
  pack_rows<T>(dout_head, out_width, rows, dim, padded_dim, A(1), call.douts);
  tile_gemm<A>(rows.count, columns, dim, {call.queries, padded_dim, 1}, call.keys_transposed, shape.padded_sequence,
               call.scores, columns, false);
  tile_gemm<A>(rows.count, columns, dim, {call.douts, padded_dim, 1}, call.values_transposed, shape.padded_sequence,
               call.dscores, columns, false);
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const std::int64_t query = rows.first + row;
    A* p = call.scores + row * columns;
    A* dp = call.dscores + row * columns;
    const A* d = call.douts + row * padded_dim;
    const T* o = out_head + query * out_width;
    A delta = 0;
#pragma omp simd reduction(+ : delta)
    for (std::int64_t i = 0; i < dim; ++i) delta += d[i] * static_cast<A>(o[i]);
    const A lse = call.log_sum_exp[(sample * shape.layout.heads + head) * shape.sequence + query];
    mask_columns(p, call.options.causal ? query + 1 : keys, columns);
    if (call.options.dropout.active()) {
      row_factors(call.options.dropout, shape, sample, head, query, columns, call.factors);
      for (std::int64_t j = 0; j < columns; ++j) {
        const A probability = vector_exp(p[j] - lse);
        const A factor = static_cast<A>(call.factors[j]);
        p[j] = probability * factor;
        dp[j] = probability * (dp[j] * factor - delta);
      }
    } else {
#pragma omp simd
      for (std::int64_t j = 0; j < columns; ++j) {
        p[j] = vector_exp(p[j] - lse);
        dp[j] = p[j] * (dp[j] - delta);
      }
    }
  }
  tile_gemm<A>(keys, padded_dim, rows.count, {call.scores, 1, columns}, call.douts, padded_dim, call.dvalues,
               padded_dim, true);
  // The packed queries carry the scale already, which dK needs; dQ takes it below.
  tile_gemm<A>(keys, padded_dim, rows.count, {call.dscores, 1, columns}, call.queries, padded_dim, call.dkeys,
               padded_dim, true);
  tile_gemm<A>(rows.count, padded_dim, keys, {call.dscores, columns, 1}, call.keys, padded_dim, call.rows, padded_dim,
               false);
  for (std::int64_t i = 0; i < rows.count * padded_dim; ++i) call.rows[i] *= scale;
  unpack_rows<T>(call.rows, padded_dim, rows, dim, call.dqkv + query_offset, width);
}

template <class T>
PPCTL_VECTORISED void backward_all(const BackwardCall<T>& call) {
  using A = Accumulator<T>;
  const Shape& shape = call.shape;
  const std::int64_t dim = shape.layout.head_dim;
  const std::int64_t width = shape.layout.width();
  const RowRange all{0, shape.sequence};
  for (std::int64_t sample = 0; sample < shape.batch; ++sample) {
    const std::int64_t offset = sample * shape.sequence * width;
    for (std::int64_t kv = 0; kv < shape.layout.kv_heads; ++kv) {
      pack_rows<T>(call.qkv + offset + shape.key_column(kv), width, all, dim, shape.padded_dim, A(1), call.keys);
      pack_transposed<T>(call.qkv + offset + shape.key_column(kv), width, shape, call.keys_transposed);
      pack_transposed<T>(call.qkv + offset + shape.value_column(kv), width, shape, call.values_transposed);
      std::fill_n(call.dkeys, shape.sequence * shape.padded_dim, A(0));
      std::fill_n(call.dvalues, shape.sequence * shape.padded_dim, A(0));
      for (std::int64_t head = kv * shape.group(); head < (kv + 1) * shape.group(); ++head) {
        for (std::int64_t first = 0; first < shape.sequence; first += kRowBlock) {
          backward_block<T>(call, sample, head, {first, std::min(kRowBlock, shape.sequence - first)});
        }
      }
      unpack_rows<T>(call.dkeys, shape.padded_dim, all, dim, call.dqkv + offset + shape.key_column(kv), width);
      unpack_rows<T>(call.dvalues, shape.padded_dim, all, dim, call.dqkv + offset + shape.value_column(kv), width);
    }
  }
}

}  // namespace

AttentionOutput attention(const at::Tensor& qkv, const AttentionOptions& options) {
  PPCTL_CHECK_EQ(qkv.size(-1), options.layout.width());
  const Shape shape(qkv, options.layout);
  const std::int64_t heads = options.layout.heads;
  const std::int64_t dim = options.layout.head_dim;
  AttentionOutput result{
      at::empty({shape.batch, shape.sequence, heads * dim}, qkv.options()),
      at::empty({shape.batch, heads, shape.sequence}, at::TensorOptions().dtype(accumulator_dtype(qkv.scalar_type())))};
  for_dtype(qkv.scalar_type(), [&]<class T>() {
    using A = Accumulator<T>;
    const std::int64_t whole = shape.padded_sequence * shape.padded_dim;
    const std::int64_t block = kRowBlock * shape.padded_dim;
    Scratch<A> scratch(2 * whole + 2 * block + kRowBlock * shape.padded_sequence);
    std::vector<float> factors(options.dropout.active() ? shape.padded_sequence : 0);
    forward_all<T>({shape, options, elements<T>(qkv), elements<T>(result.out), elements<A>(result.log_sum_exp),
                    scratch.take(whole), scratch.take(whole), scratch.take(block),
                    scratch.take(kRowBlock * shape.padded_sequence), scratch.take(block), factors.data()});
  });
  return result;
}

at::Tensor attention_backward(const at::Tensor& dout, const at::Tensor& qkv, const AttentionOutput& forward,
                              const AttentionOptions& options) {
  const Shape shape(qkv, options.layout);
  at::Tensor dqkv = at::empty(qkv.sizes(), qkv.options());
  for_dtype(qkv.scalar_type(), [&]<class T>() {
    using A = Accumulator<T>;
    const std::int64_t whole = shape.padded_sequence * shape.padded_dim;
    const std::int64_t block = kRowBlock * shape.padded_dim;
    const std::int64_t scores = kRowBlock * shape.padded_sequence;
    Scratch<A> scratch(5 * whole + 3 * block + 2 * scores);
    std::vector<float> factors(options.dropout.active() ? shape.padded_sequence : 0);
    backward_all<T>({shape, options, elements<T>(dout), elements<T>(qkv), elements<T>(forward.out),
                     elements<A>(forward.log_sum_exp), elements<T>(dqkv), scratch.take(whole), scratch.take(whole),
                     scratch.take(whole), scratch.take(whole), scratch.take(whole), scratch.take(block),
                     scratch.take(block), scratch.take(scores), scratch.take(scores), scratch.take(block),
                     factors.data()});
  });
  return dqkv;
}

}  // namespace ppctl::kernels
