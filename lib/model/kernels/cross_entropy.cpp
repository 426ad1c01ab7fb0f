#include "model/kernels/cross_entropy.hpp"

#include <cmath>
#include <vector>

#include "model/kernels/dispatch.hpp"
#include "model/kernels/simd.hpp"

namespace ppctl::kernels {
namespace {

/// The loss of one row; `exponentials` gets e^(x - max) and `sum` their sum.
template <class T>
PPCTL_VECTORISED double row_loss(const T* x, std::int64_t n, std::int64_t label, Accumulator<T>* exponentials,
                                 Accumulator<T>& sum) {
  using A = Accumulator<T>;
  A largest = static_cast<A>(x[0]);
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < n; ++i) largest = static_cast<A>(x[i]) > largest ? static_cast<A>(x[i]) : largest;
  A total = 0;
#pragma omp simd reduction(+ : total)
  for (std::int64_t i = 0; i < n; ++i) {
    exponentials[i] = vector_exp(static_cast<A>(x[i]) - largest);
    total += exponentials[i];
  }
  sum = total;
  return std::log(static_cast<double>(total)) + (static_cast<double>(largest) - static_cast<double>(x[label]));
}

template <class T>
PPCTL_VECTORISED void row_gradient(T* x, std::int64_t n, std::int64_t label, const Accumulator<T>* exponentials,
                                   Accumulator<T> sum, Accumulator<T> gradient_scale) {
  using A = Accumulator<T>;
  const A factor = gradient_scale / sum;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) x[i] = static_cast<T>(exponentials[i] * factor);
  x[label] = static_cast<T>(exponentials[label] * factor - gradient_scale);
}

}  // namespace

TokenLosses cross_entropy(const at::Tensor& logits, const at::Tensor& labels, const double* gradient_scale) {
  const std::int64_t vocabulary = logits.size(-1);
  const std::int64_t rows = logits.numel() / vocabulary;
  PPCTL_CHECK_EQ(labels.numel(), rows);
  const auto* label_of = elements<std::int64_t>(labels);
  TokenLosses losses;
  for_dtype(logits.scalar_type(), [&]<class T>() {
    using A = Accumulator<T>;
    std::vector<A> exponentials(vocabulary);
    for (std::int64_t row = 0; row < rows; ++row) {
      T* x = elements<T>(logits) + row * vocabulary;
      const std::int64_t label = label_of[row];
      if (label == kIgnoredLabel) {
        if (gradient_scale != nullptr) std::fill_n(x, vocabulary, T(0));
        continue;
      }
      if (label < 0 || label >= vocabulary) {
        throw_error("label {} of token {} of a microbatch is outside of the vocabulary of {}", label, row, vocabulary);
      }
      A sum = 0;
      losses.sum += row_loss<T>(x, vocabulary, label, exponentials.data(), sum);
      ++losses.num_labels;
      if (gradient_scale != nullptr) {
        row_gradient<T>(x, vocabulary, label, exponentials.data(), sum, static_cast<A>(*gradient_scale));
      }
    }
  });
  return losses;
}

}  // namespace ppctl::kernels
